%% SPDX-License-Identifier: Apache-2.0
%% Chains of functions that end in burn/1, which asks its process for the stack, or works. Each worker of main/1 goes through all of them again and again: in Erlang, in C that Erlang calls, in fresh garbage.
-module(victim_beam).
-export([main/1, chain/2, call/1, burn/1, loops/1, named/1]).

-define(CHAINS, [recursion, map, foldl, sort, comprehension, applied, caught, cleanup, maps_fold, remote,
                 ets_fold, select, binary, external, matched, bignum, garbage, collect, digest, messages, sent,
                 frames]).

main(["print" | Names]) ->
    Chains = chains(Names),
    erlang:system_flag(backtrace_depth, 200),
    start(Chains, print, self()),
    [receive {said, Name, Stacks} -> [print(Name, Stack) || Stack <- Stacks] end || Name <- Chains],
    halt(0);
main(["sleep"]) ->
    io:format("ready~n"),
    naps();
main(["processes"]) ->
    %% pids have two numbers, the second one from 32,768 processes on, or from 2^28
    [spawn(fun() -> ok end) || _ <- lists:seq(1, 100000)],
    Pids = [spawn(?MODULE, loops, [1]), spawn(?MODULE, named, [1])],
    register(burner, lists:last(Pids)),
    [tell(Pid) || Pid <- Pids],
    io:format("ready~n"),
    receive never -> ok end;
main(["blocks", Path]) ->
    io:format("ready~n"),
    {blocks(Path)};
main([Workers | Names]) ->
    Chains = chains(Names),
    [start(Chains, work, self()) || _ <- lists:seq(1, list_to_integer(Workers))],
    io:format("ready~n"),
    receive never -> ok end.

chains([]) -> ?CHAINS;
chains(Names) -> [list_to_atom(Name) || Name <- Names].

%% A named pipe that nobody writes.
blocks(Path) -> R = prim_file:read_file(Path), {R}.

%% What a process says of itself: the function that it began with, its name, or that function again, its pid.
tell(Pid) ->
    {initial_call, {M, F, A}} = process_info(Pid, initial_call),
    Began = io_lib:format("~s:~s/~b", [M, F, A]),
    Name = case process_info(Pid, registered_name) of {registered_name, Atom} -> atom_to_list(Atom); [] -> Began end,
    io:format("process ~s ~s ~w~n", [Began, Name, Pid]).

loops(N) ->
    Sum = spin(30000, 0),
    loops(N bxor Sum).

named(N) ->
    Sum = spin(30000, 0),
    named(N bxor Sum).

naps() ->
    timer:sleep(1),
    naps().

start(Chains, How, Parent) ->
    spawn(fun() -> prepare(), rounds(Chains, How, Parent), exit(done) end).

rounds(Chains, How, Parent) ->
    lists:foreach(fun(Name) -> one(Name, How, Parent), ok end, Chains),
    How =:= print orelse rounds(Chains, How, Parent).

one(Name, How, Parent) ->
    chain(Name, case How of print -> print; work -> Name end),
    How =:= print andalso (Parent ! {said, Name, get(said)}),
    erase(said).

%% Functions from the root on, each with its line, as the process says of itself.
print(Name, Stack) ->
    Frames = [io_lib:format("~s:~s/~b@~b", [M, F, A, proplists:get_value(line, Place, 0)])
              || {M, F, A, Place} <- lists:reverse(Stack), {M, F} =/= {erlang, process_info}],
    io:format("~s ~s~n", [Name, lists:join(";", Frames)]).

prepare() ->
    Table = ets:new(table, [public]),
    [ets:insert(Table, {N, N * N}) || N <- lists:seq(1, 200)],
    put(table, Table),
    put(big, binary:copy(<<"abcdefgh">>, 4000)),
    put(term, lists:seq(1, 3000)),
    put(program, filename:join([code:root_dir(), "erts-" ++ erlang:system_info(version), "bin", "beam.smp"])).

%% Each clause keeps a frame of chain/2: what it calls is not its last call.
chain(recursion, How) -> R = deep(40, How), {R};
chain(map, How) -> R = lists:map(fun(X) -> {X, burn(How)} end, [1, 2]), {R};
chain(foldl, How) -> R = lists:foldl(fun(X, Sum) -> burn(How), X + Sum end, 0, [1, 2]), {R};
chain(sort, How) -> R = lists:sort(fun(A, B) -> burn(How), A =< B end, [2, 1]), {R};
chain(comprehension, How) -> R = [{X, burn(How)} || X <- [1, 2]], {R};
chain(applied, How) -> R = apply(?MODULE, call, [How]), {R};
chain(caught, How) -> R = (catch call(How)), {R};
chain(cleanup, How) -> R = try call(How) after put(cleaned, true) end, {R};
chain(maps_fold, How) -> R = maps:fold(fun(_, V, Sum) -> burn(How), V + Sum end, 0, #{a => 1, b => 2}), {R};
chain(remote, How) -> R = proplists:get_value(x, [{x, ?MODULE:burn(How)}]), {R};
chain(ets_fold, How) -> R = ets:foldl(fun(_, Sum) -> burn(How), Sum + 1 end, 0, get(table)), {R};
chain(_, How) -> R = deep(5, How), {R}.

deep(0, How) -> {burn(How)};
deep(N, How) -> {deep(N - 1, How)}.

call(How) -> {burn(How)}.

burn(print) ->
    {current_stacktrace, Stack} = process_info(self(), current_stacktrace),
    put(said, [Stack | case get(said) of undefined -> []; Said -> Said end]),
    {said};
burn(How) -> {burns(How)}.

burns(select) -> ets:select_count(get(table), [{{'$1', '$2'}, [{'>', '$2', 100}], [true]}]);
burns(binary) -> length(binary:matches(get(big), <<"gha">>));
burns(external) -> byte_size(term_to_binary(get(term))) + length(binary_to_term(term_to_binary(get(term))));
burns(matched) -> re:run(get(big), "abcdefghz", [{capture, none}]);
burns(bignum) -> (1 bsl 20000) * (3 bsl 20000) rem 1234567;
burns(garbage) -> length(lists:seq(1, 2000)) + tuple_size(list_to_tuple(lists:seq(1, 500)));
burns(collect) -> erlang:garbage_collect();
burns(large) -> put(large, lists:seq(1, 400000)), erlang:garbage_collect();
burns(file) -> {ok, Bytes} = prim_file:read_file(get(program)), byte_size(Bytes);
burns(digest) -> byte_size(erlang:md5(get(big)));
burns(messages) -> self() ! {hello, self()}, receive {hello, _} -> erlang:yield() end;
burns(sent) -> Pid = spawn(fun() -> receive {From, X} -> From ! {answer, X} end end), Pid ! {self(), 1},
               receive {answer, 1} -> ok end;
burns(frames) -> fresh(3000, 0);
burns(_) -> spin(30000, 0).

%% Frames of other sizes lay where wide/3 makes its own: return addresses are in it until it is written.
fresh(0, Sum) -> Sum;
fresh(N, Sum) -> fresh(N - 1, Sum bxor both(N, Sum, N + Sum)).

both(A, B, C) ->
    X = narrow(C),
    Y = wide(A, X, B),
    (X + Y + A) band 16#ffff.

narrow(A) -> small(A) + 1.

small(A) -> X = least(A), X bxor 1.

least(A) -> X = last(A), X bxor 3.

last(A) -> A band 255.

wide(A, B, C) ->
    X = last(C),
    Y = last(B),
    A + B + C + X + Y.

spin(0, Sum) -> Sum;
spin(N, Sum) -> spin(N - 1, Sum bxor (N * 7)).
