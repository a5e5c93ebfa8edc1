# A shell around Dalli: client.rb binary|meta HOST PORT. See ../doc.go for the commands and the form of results.
require 'dalli'
Dalli.logger.level = 5
$stdout.sync = true
name, host, port = ARGV
C = Dalli::Client.new("#{host}:#{port}", { raw: true, serializer: Marshal }.merge(name == 'meta' ? { protocol: :meta } : {}))
TOKENS = {}
COMMANDS = {
  'get' => ->(k) { C.get(k) }, 'multi' => ->(*k) { C.get_multi(*k) }, 'delete' => ->(k) { C.delete(k) }, 'incr' => ->(k, n) { C.incr(k, n.to_i) },
  'set' => ->(k, v, e = 0) { C.set(k, v, e.to_i) && true }, 'add' => ->(k, v, e = 0) { C.add(k, v, e.to_i) && true }, 'replace' => ->(k, v, e = 0) { C.replace(k, v, e.to_i) && true },
  'append' => ->(k, v) { C.append(k, v) }, 'touch' => ->(k, e) { C.touch(k, e.to_i) }, 'flush' => -> { C.flush }, 'version' => -> { C.version.values.first },
  'gets' => ->(k) { v, TOKENS[k] = C.get_cas(k); v }, 'cas' => ->(k, v) { C.set_cas(k, v, TOKENS[k]) && true },
}
show = lambda do |v|
  case v
  when String then v.length <= 100 ? v : "#{v.length} bytes"
  when Hash then "{#{v.sort.map { |k, x| "#{k}=#{show.(x)}" }.join(',')}}"
  else v.inspect
  end
end
puts 'ready'
while (line = $stdin.gets&.split)
  command = line.shift
  (puts 'unsupported'; next) unless COMMANDS[command]
  line[1] = 'x' * line[1][1..].to_i if %w[set add].include?(command) && line[1].start_with?('*')
  begin
    puts show.(COMMANDS[command].(*line))
  rescue StandardError => e
    puts "error: #{e.class}: #{e.message}".tr("\n", ' ')[0, 150]
  end
end
