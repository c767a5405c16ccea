# Ruby that computes in known chains of calls, one after the other, for test-run-ruby.py. Each chain begins in its
# own block and ends in `burn`. Runs on Ruby 2.7 and newer.
#
# usage: ruby victim-ruby.rb [--threads] [CHAIN…]   prints `ready`, runs until it is killed; without a name, all
#                                                   but `collected`
#        ruby victim-ruby.rb --print    Ruby's own word on each chain, by caller_locations(), as JSON:
#                                       {chain: [[[label, line, path], …], …]}, the outermost first: one for each
#                                       call of `burn`. From 3.2 on labels have classes, as those of 3.4 have
require 'json'
require 'fiber'

PRINT = ARGV.delete('--print')
THREADS = ARGV.delete('--threads')
ROUNDS = 4000

def burn(seed)
  Truth.add(caller_locations(0)) if PRINT
  total = seed
  i = 0
  while i < ROUNDS
    total = total * 31
    total = (total + i) & 0xffff
    i += 1
  end
  total
end

# Labels with classes: of methods of C by what was called and has not returned, of others by where they are. First
# all chains are called, then once more to be watched: from then on calls have frames where they had none
module Truth
  CALLS = Hash.new { |calls, fiber| calls[fiber] = [] }
  CHAINS = Hash.new { |chains, name| chains[name] = [] }
  WATCHED = Hash.new { |watched, name| watched[name] = [] }
  HAS_CLASSES = RUBY_VERSION >= '3.2' && RUBY_VERSION < '3.4'

  def self.begin(name)
    @name = name
  end

  def self.add(chain)
    @is_watched ? WATCHED[@name] << @last : CHAINS[@name] << chain
  end

  def self.watch
    @is_watched = true
    TracePoint.new(:c_call, :c_return, :call) do |at|
      calls = CALLS[Fiber.current]
      case at.event
      when :c_call then calls << [at.defined_class, at.method_id.to_s]
      when :c_return then calls.pop if calls.last == [at.defined_class, at.method_id.to_s]
      else @last = calls.dup if at.method_id == :burn
      end
    end.enable
  end

  def self.of(name)
    CHAINS[name].each_with_index.map { |chain, i| labels(chain, WATCHED[name][i].to_a.dup).reverse }.uniq
  end

  def self.labels(chain, calls)
    chain.each_with_index.map do |at, i|
      call = at.lineno.to_i == chain[i + 1]&.lineno.to_i && calls.rindex { |_, name| name == at.label }
      if call
        label = with_class(calls[call][0], at.label)
        calls.pop(calls.size - call)
      elsif HAS_CLASSES && !at.base_label.match?(/\A<(main|class:)/)
        label = at.label.delete_suffix(at.base_label) + with_class(owner(at), at.base_label)
      end
      [label || at.label, at.lineno, at.path]
    end
  end

  def self.with_class(owner, name)
    return name unless owner
    return owner.name ? "#{owner.name}##{name}" : name unless owner.singleton_class?

    owner.attached_object.is_a?(Module) ? "#{owner.attached_object.name}.#{name}" : name
  end

  # Who has a method of this name in this file, the last one that begins in front of the line
  def self.owner(at)
    @owners ||= ObjectSpace.each_object(Module).flat_map { |m| [m, m.singleton_class] }.uniq
    found = @owners.select { |m| m.method_defined?(at.base_label, false) || m.private_method_defined?(at.base_label, false) }
    found = found.map { |m| [m, m.instance_method(at.base_label).source_location] }
    found = found.select { |m, (path, line)| path == at.path && line && line <= at.lineno.to_i }
    found.max_by { |m, (path, line)| [line, m.singleton_class? ? 0 : 1] }&.first
  end
end

module Counts
  def total
    burn(1)
  end
end

class Shape
  include Counts
  include Comparable
  attr_reader :side

  def initialize(side = 1)
    @side = side
  end

  def area
    side *
      total
  end

  def self.made
    new.area
  end

  def method_missing(name, *arguments)
    burn(2)
  end

  def respond_to_missing?(*)
    true
  end

  def <=>(other)
    burn(3)
    side <=> other.side
  end

  def to_s
    burn(4).to_s
  end

  def each
    yield 1
    yield 2
  end

  define_method(:defined) { |n| burn(n) }
end

class Square < Shape
  def area
    super + 1
  end
end

class Rows
  include Enumerable

  def each
    yield burn(5)
    yield 1
  end
end

def hot(n)
  burn(n)
end

def mid(n)
  hot(n) + 1
end

def top(n)
  mid(n) + 1
end

def deep(depth)
  depth > 0 ? deep(depth - 1) + 1 : burn(8)
end

def thrower
  raise ArgumentError, 'as expected'
end

def keyed(a, b = burn(1), c: burn(2))
  a
end

def long_one(x)
  # more than 54 words of code, so that lines are behind the first places
  a = x + 1
  b = a * 2
  c = b - 3
  d = c + a
  e = d + b
  f = e ^ c
  g = f | 1
  h = [a, b, c, d, e, f, g]
  k = { a: a, b: b, c: c }
  if h.size > 3
    burn(1)
  end
  l = h.size + k.size
  m = l + a + b + c
  n = m + d + e + f
  o = n * 2 + l
  p = o - n + m
  q = [l, m, n, o, p]
  r = { l: l, m: m, n: n, o: o }
  s = q.size + r.size + p
  t = s + o + n + m + l
  u = t + s - q.size
  v = u + t + s
  w = v * u + t
  y = w + v + u + t + s
  z = [t, u, v, w, y]
  aa = z.size + y + w + v + u
  bb = aa + z.size * y + w
  cc = bb + aa + y
  dd = cc - bb + aa
  ee = [aa, bb, cc, dd].size + dd
  ff = { aa: aa, bb: bb, cc: cc, dd: dd, ee: ee }
  gg = ff.size + ee + dd + cc
  hh = gg * 2 + ff.size
  ii = hh + gg + ee
  jj = [ii, hh, gg].size + ii
  kk = jj + ii + hh + gg + ee + dd
  ll = kk + jj * ii + hh
  burn(2) + ll
end

def collect
  GC.start
end

fiber_of = lambda { Fiber.new { Fiber.yield hot(6); hot(7) } }

CHAINS = {
  'plain' => -> { top(1) },
  'recursion' => -> { deep(60) },
  'methods' => -> { Square.made },
  'each' => -> { [1, 2].each { |x| burn(x) } },
  'mapped' => -> { [1, 2].map { |x| [x].each_with_index { |y, i| hot(y + i) } } },
  'injected' => -> { [1, 2, 3].inject { |a, b| burn(a + b) } },
  'sorted' => -> { [3, 1, 2].sort { |x, y| burn(1) * 0 + (x - y) } },
  'sorted by' => -> { %w[b a].sort_by { |x| burn(x.size) } },
  'compared' => -> { Shape.new(1) < Shape.new(2) },
  'expression' => -> { 'abc'.gsub(/b/) { burn(9).to_s } },
  'missing' => -> { Shape.new.nothing(1) },
  'defined' => -> { Shape.new.defined(3) },
  'evaluated' => -> { eval("burn(2)\n", binding, 'evaluated.rb', 7) },
  'instance' => -> { Shape.new.instance_eval { total } },
  'sent' => -> { Shape.new.send(:public_send, :area) },
  'symbol' => -> { [Shape.new].map(&:area) },
  'method' => -> { [1].each(&method(:top)) },
  'text' => -> { "#{Shape.new}" },
  'rescued' => lambda {
    begin
      thrower
    rescue ArgumentError
      hot(3)
    ensure
      hot(4)
    end
  },
  'caught' => -> { catch(:done) { throw :done, burn(1) } },
  'hash' => -> { Hash.new { |h, k| h[k] = burn(k) }[1] },
  'enumerated' => -> { Rows.new.first(1) },
  'advanced' => -> { Rows.new.each_entry.next },
  'lazy' => -> { (1..3).lazy.map { |x| burn(x) }.select(&:even?).first },
  'fiber' => -> { fiber_of.call.tap(&:resume).resume },
  'class' => -> { Class.new { |made| burn(1) } },
  'keys' => -> { keyed(1) },
  'long' => -> { long_one(1) },
  'times' => -> { 2.times { |i| 1.step(2) { |j| burn(i + j) } } },
  'proc' => -> { proc { |x| burn(x) }.call(1) },
  'tap' => -> { 1.tap { |x| burn(x) }.then { |x| hot(x) } },
  'loop' => -> { loop { break burn(1) } },
  'collected' => -> { collect }
}.freeze

wanted = CHAINS.slice(*ARGV)
wanted = CHAINS.reject { |name, _| name == 'collected' } if wanted.empty?
if PRINT
  call_all = lambda do
    wanted.each do |name, chain|
      Truth.begin(name)
      chain.call
    end
  end
  call_all.call
  if Truth::HAS_CLASSES
    Truth.watch
    call_all.call
  end
  puts JSON.generate(wanted.to_h { |name, _| [name, Truth.of(name)] })
  exit
end
$stdout.sync = true
puts 'ready'
2.times { Thread.new { loop { CHAINS['sorted'].call } } } if THREADS
loop { wanted.each { |name, chain| chain.call } }
