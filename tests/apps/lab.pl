#!/usr/bin/perl
# SPDX-License-Identifier: BSD-3-Clause
# lab.pl PORT: the laboratory program's client (lab.x) on PerlIO, which buffers, seeks and asks for a terminal.
use strict;
use warnings;
use IO::Socket::INET;

my $host = $ENV{LAB_ADDRESS} // '127.0.0.1';
my $sock = IO::Socket::INET->new(PeerAddr => "$host:$ARGV[0]", Proto => 'tcp') or die "connect: $!";
my $calls = 0;

sub take {
	my ($n) = @_;
	my $got = read($sock, my $bytes, $n);
	defined $got && $got == $n or die "short read: $!";
	return $bytes;
}

sub ask {
	my ($proc, $args) = @_;
	my $msg = pack('N10', ++$calls, 0, 2, 0x20005244, 1, $proc, 0, 0, 0, 0) . $args;
	print $sock pack('N', 0x80000000 | length $msg), $msg or die "write: $!";
	$sock->flush or die "flush: $!";
	my ($reply, $mark) = ('', 0);
	until ($mark & 0x80000000) {
		$mark = unpack('N', take(4));
		$reply .= take($mark & 0x7fffffff);
	}
	substr($reply, 0, 24) eq pack('N6', $calls, 1, 0, 0, 0, 0) or die 'not an answer';
	return substr($reply, 24);
}

sub opaque { return pack('N', length $_[0]) . $_[0] . "\0" x (-length($_[0]) % 4) }

die 'a socket is a terminal' if -t $sock;
die 'a socket can seek' if defined sysseek($sock, 0, 1);
ask(0, '') eq '' or die 'null';
for my $n (0, 1, 3, 4, 100, 4096, 8191, 8192, 8193, 9000, 65536, 1000000) {
	my $data = join '', map { chr($_ * 31 & 255) } 1 .. $n;
	ask(1, opaque($data)) eq opaque($data) or die "echo $n";
}
print "perl ok\n";
print STDERR "calls $calls\n";
