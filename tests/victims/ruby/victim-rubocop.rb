# SPDX-License-Identifier: Apache-2.0
# RuboCop on the files that it is given, beside StackProf, the profiler of Ruby. The first argument is a file for what
# that says: a method a line, of how many samples, and its file.
require "rubocop"
require "stackprof"
out = ARGV.shift

def work(files)
  RuboCop::CLI.new.run(%w[--cache false --only Style,Layout,Naming --format quiet] + files)
end

said = StackProf.run(mode: :cpu, interval: 2000) { work(ARGV) }
File.write(out, "#{said[:samples] - said[:gc_samples]}\n" + said[:frames].values.map { |frame|
  "#{frame[:total_samples]}\t#{frame[:name]}\t#{frame[:file]}\n"
}.join)
