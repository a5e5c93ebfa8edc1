# A shell around Perl's memcached clients: client.pl MODULE HOST PORT. See ../doc.go for the commands and the form of results.
use strict; use warnings;
my ($module, $host, $port) = @ARGV;
$| = 1;
eval "require $module; 1" or die $@;
my $c = $module->new({servers => ["$host:$port"]});
my %tokens;
my $store = sub { my $m = shift; sub { $c->$m($_[0], $_[1], $_[2] // 0) } };
my %commands = (
	get => sub { $c->get($_[0]) }, multi => sub { $c->get_multi(@_) }, delete => sub { $c->delete($_[0]) }, incr => sub { $c->incr($_[0], $_[1]) },
	set => $store->('set'), add => $store->('add'), replace => $store->('replace'),
	append => sub { $c->append($_[0], $_[1]) }, flush => sub { $c->flush_all }, touch => sub { $c->touch($_[0], $_[1]) },
	gets => sub { my $r = $c->gets($_[0]); $tokens{$_[0]} = $r->[0]; $r->[1] }, cas => sub { $c->cas($_[0], $tokens{$_[0]}, $_[1]) },
);
sub show {
	my $v = shift;
	return 'undef' unless defined $v;
	return '{' . join(',', map { "$_=" . show($v->{$_}) } sort keys %$v) . '}' if ref $v eq 'HASH';
	return length $v <= 100 ? "$v" : length($v) . ' bytes';
}
print "ready\n";
while (my $text = <STDIN>) {
	my ($command, @arguments) = split ' ', $text;
	if (!$commands{$command} || !$c->can($command) && $command =~ /^(touch|gets|cas|append)$/) { print "unsupported\n"; next; }
	$arguments[1] = 'x' x $1 if $command =~ /^(set|add)$/ && $arguments[1] =~ /^\*(\d+)/;
	my $v = eval { show($commands{$command}->(@arguments)) };
	print defined $v ? "$v\n" : 'error: ' . ($@ =~ s/\n/ /gr) . "\n";
}
