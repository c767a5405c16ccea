# SPDX-License-Identifier: Apache-2.0
# A service of Sinatra under Puma, beside StackProf, the profiler of Ruby. Arguments: a file for what StackProf says: a
# method a line, of how many samples, and its file; CPU time in seconds. It says its port, and ends after that time.
require "sinatra/base"
require "puma"
require "stackprof"
require "json"
require "erb"
require "digest"

OUT, SECONDS = ARGV[0], ARGV[1].to_f

class Shop < Sinatra::Base
  set :environment, :production
  set :logging, false
  PAGE = ERB.new("<ul><% items.each do |i| %><li><%= ERB::Util.h(i[:name]) %>: <%= i[:price] %></li><% end %></ul>")

  def items(n)
    (0...n).map { |i| { name: "item <#{i}>", price: (i * 37 % 101) / 4.0 } }.sort_by { |i| i[:price] }
  end

  get("/items/:n.json") { content_type :json; JSON.generate(items(params["n"].to_i)) }
  get("/items/:n") { PAGE.result_with_hash(items: items(params["n"].to_i)) }
  get("/digest/:text") { Digest::SHA256.hexdigest(params["text"] * 200) }
end

server = Puma::Server.new(Shop.new, Puma::Events.null, min_threads: 2, max_threads: 2)
port = server.add_tcp_listener("127.0.0.1", 0).addr[1]
server.run
StackProf.start(mode: :cpu, interval: 2000)
$stdout.puts "ready #{port}"
$stdout.flush
sleep 0.1 while Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID) < SECONDS
StackProf.stop
said = StackProf.results
File.write(OUT, "#{said[:samples] - said[:gc_samples]}\n" + said[:frames].values.map { |frame|
  "#{frame[:total_samples]}\t#{frame[:name]}\t#{frame[:file]}\n"
}.join)
server.stop(true)
