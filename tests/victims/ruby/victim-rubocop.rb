# SPDX-License-Identifier: Apache-2.0
# RuboCop on the files that it is given, beside StackProf, the profiler of Ruby. The first arguments are a file for
# what that says: a method a line, of how many samples, and its file; and how many rounds.
require "rubocop"
require "stackprof"
out = ARGV.shift
rounds = ARGV.shift.to_i

def work(files)
  RuboCop::CLI.new.run(%w[--cache false --only Style,Layout,Naming --format quiet] + files)
end

said = StackProf.run(mode: :cpu, interval: 2000) { rounds.times { work(ARGV) } }
File.write(out, "#{said[:samples] - said[:gc_samples]}\n" + said[:frames].values.map { |frame|
  "#{frame[:total_samples]}\t#{frame[:name]}\t#{frame[:file]}\n"
}.join)
