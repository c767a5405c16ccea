# SPDX-License-Identifier: Apache-2.0
# Chains of Elixir's functions that end in Shop.Cart.burn/2, which says its stack as Elixir writes it, or works.
# Argument: `print` or `work`.
defmodule Shop.Cart do
  def total(lines, how), do: {Enum.map(lines, fn line -> {line, burn(line, how)} end)}
  def reduce(lines, how), do: {Enum.reduce(lines, 0, fn line, sum -> sum + burn(line, how) end)}
  def stream(lines, how), do: {lines |> Stream.map(&burn(&1, how)) |> Enum.to_list()}
  def match?(lines, how), do: {Enum.any?(lines, &(burn(&1, how) < 0))}

  def burn(line, :print) do
    {:current_stacktrace, [_ | stack]} = Process.info(self(), :current_stacktrace)
    IO.puts(stack |> Enum.map(fn {m, f, a, _} -> Exception.format_mfa(m, f, a) end) |> Enum.join(";"))
    line
  end

  def burn(line, :work), do: {spin(20_000, line)} |> size()

  def size({sum}), do: sum

  def spin(0, sum), do: sum
  def spin(n, sum), do: spin(n - 1, Bitwise.bxor(sum, n * 7))
end

defmodule Shop do
  def chains(how) do
    for name <- [:total, :reduce, :stream, :match?] do
      result = apply(Shop.Cart, name, [[1, 2], how])
      {name, result}
    end
  end

  def forever(how) do
    chains(how)
    forever(how)
  end
end

case System.argv() do
  ["print"] ->
    :erlang.system_flag(:backtrace_depth, 100)
    Shop.chains(:print)

  ["work"] ->
    IO.puts("ready")
    Shop.forever(:work)
end
