<?php
// A shell around PHP's memcached clients: client.php NAME HOST PORT. See ../doc.go for the commands and the form of results.
[$name, $host, $port] = array_slice($argv, 1);
error_reporting(E_ALL & ~E_DEPRECATED);
set_error_handler(function ($n, $text) { if ($n & error_reporting()) throw new ErrorException($text); return true; });
$tokens = [];
if ($name === 'Memcache') {
	$c = new Memcache();
	$c->addServer($host, (int) $port);
	$store = fn($m) => fn($k, $v, $e = 0) => $c->$m($k, $v, 0, (int) $e);
	$commands = ['get' => fn($k) => $c->get($k), 'multi' => fn(...$k) => $c->get($k), 'flush' => fn() => $c->flush(), 'version' => fn() => $c->getVersion(),
		'append' => fn($k, $v) => $c->append($k, $v)];
	$word = fn() => '';
} else {
	$c = new Memcached();
	$c->setOption(Memcached::OPT_BINARY_PROTOCOL, $name === 'Memcached-binary');
	$c->setOption(Memcached::OPT_COMPRESSION, false); // append needs that
	$c->addServer($host, (int) $port);
	$store = fn($m) => fn($k, $v, $e = 0) => $c->$m($k, $v, (int) $e);
	$commands = ['get' => fn($k) => $c->get($k), 'multi' => fn(...$k) => $c->getMulti($k), 'flush' => fn() => $c->flush(), 'touch' => fn($k, $e) => $c->touch($k, (int) $e),
		'append' => fn($k, $v) => $c->append($k, $v), 'version' => fn() => implode(',', $c->getVersion() ?: ['none']),
		'gets' => function ($k) use ($c, &$tokens) { $r = $c->get($k, null, Memcached::GET_EXTENDED); $tokens[$k] = $r['cas'] ?? 0; return $r['value'] ?? null; },
		'cas' => function ($k, $v) use ($c, &$tokens) { return $c->cas($tokens[$k], $k, $v); }];
	$word = fn() => ' ' . $c->getResultMessage();
}
$commands += ['set' => $store('set'), 'add' => $store('add'), 'replace' => $store('replace'), 'delete' => fn($k) => $c->delete($k), 'incr' => fn($k, $n) => $c->increment($k, (int) $n)];
function show($v) {
	if (is_array($v)) { ksort($v); return '{' . implode(',', array_map(fn($k, $x) => "$k=" . show($x), array_keys($v), $v)) . '}'; }
	return is_string($v) ? (strlen($v) <= 100 ? $v : strlen($v) . ' bytes') : var_export($v, true);
}
echo "ready\n";
while (($text = fgets(STDIN)) !== false) {
	$line = explode(' ', trim($text));
	$command = array_shift($line);
	if (!isset($commands[$command])) { echo "unsupported\n"; continue; }
	if (in_array($command, ['set', 'add']) && $line[1][0] === '*') $line[1] = str_repeat('x', (int) substr($line[1], 1));
	try { echo show($commands[$command](...$line)), $word(), "\n"; } catch (Throwable $e) { echo 'error: ', str_replace("\n", ' ', $e->getMessage()), "\n"; }
}
