# zen_verify() and zen_verify_pool() beside a random load never find what is not there.
#
# Five clients of the crash test, with prepared transactions and savepoints; two that
# create, fill, truncate, rewrite, move and drop tables, in transactions that are
# committed, rolled back or prepared; one that runs VACUUM, REINDEX and ANALYZE.  Everything
# is verified all the while, then after a crash, and after a clean restart.  Before that, a few
# rows are verified again and again that transactions change several times each.
#
# LOAD_SECONDS=n  length of the load (default 10); what a verification holds back from collection has to fit into DRAM
# SEED=n     replays the random choices
# ZEN_TEST_INJECT=1  must fail

use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";

use CrashClient;
use CrashModel;
use CrashVerify;
use POSIX ();
use PostgreSQL::Test::Utils ();
use Test::More;
use Time::HiRes qw(sleep time);
use ZenTest;

skip_unless_zen();
my $seconds = $ENV{LOAD_SECONDS} || 10;
my $seed    = choose_seed();
my $node    = new_node('verify_load', pool_size => '1GB', dram_size => '1GB');
my $dir     = PostgreSQL::Test::Utils::tempdir();
my %model   = map { $_ => { item => {}, led => {}, mix => {} } } 1 .. 5;

$node->start;
my $dbh = connect_db($node);
value($dbh, $_) for 'CREATE EXTENSION zen', "CREATE TABLESPACE ts LOCATION '$dir'";
create_tables($dbh);
is_sound($dbh, 'before the load');

test_same_rows();
my %running = map { start_client($_) => $_ } 1 .. 8;
my @wrong   = verify_under_load();
is_deeply(\@wrong, [], 'no findings under load');
crash($node);
wait_for('the clients to end', sub { delete $running{$_} for grep { waitpid($_, POSIX::WNOHANG()) > 0 } keys %running;
	!%running });
is_deeply([ map { @{ read_journal(journal($_), $model{$_})->{failures} } } 1 .. 5 ], [], 'the clients met no error');
is_deeply([ map { grep { /^F/ } split /\n/, PostgreSQL::Test::Utils::slurp_file(journal($_)) } 6 .. 8 ],
	[], 'nor did DDL and maintenance');

start_again($node);
$dbh = connect_db($node);
# a prepared transaction may keep a table locked
value($dbh, "ROLLBACK PREPARED '$_'") for grep { /^ddl/ } prepared();
is_sound($dbh, 'after a crash');
value($dbh, "ROLLBACK PREPARED '$_'") for prepared();
vacuum_all($dbh);
is_sound($dbh, 'after a crash and VACUUM');
$dbh->disconnect;
$node->restart;
$dbh = connect_db($node);
is_sound($dbh, 'after a restart');
value($dbh, "DELETE FROM pg_class WHERE relname = 'item'") if inject();
is_sound($dbh, 'at the end');
$node->stop('immediate');
done_testing();

sub prepared { return map { $_->[0] } @{ run_sql($dbh, 'SELECT gid FROM pg_prepared_xacts')->{rows} }; }

sub journal { return "$PostgreSQL::Test::Utils::tmp_check/verify_journal_$_[0]"; }

# Three versions of a row in each transaction, of which the last one goes to NVM: whether it has committed is asked
# after the row was looked at.
sub test_same_rows
{
	my ($writers, $verifiers, $transactions, $rounds) = (6, 3, 5000, 500);
	my $writer = qq{DO 'BEGIN FOR i IN 1 .. $transactions LOOP } .
	  ('UPDATE same SET v = v + 1 WHERE id = %d; ' x 3) . q{COMMIT; END LOOP; END'};
	my $verifier = qq{DO 'DECLARE f record; BEGIN FOR i IN 1 .. $rounds LOOP } .
	  q{SELECT * INTO f FROM zen_verify(''same'') LIMIT 1;
			IF FOUND THEN RAISE EXCEPTION ''%'', f; END IF; END LOOP; END'};

	value($dbh, $_) for 'CREATE TABLE same (id int PRIMARY KEY, v int) USING zen',
		"INSERT INTO same SELECT g, 0 FROM generate_series(1, $writers) g";
	my @pids = map { fork_session($writer =~ s/%d/$_/gr) } 1 .. $writers;
	push @pids, map { fork_session($verifier) } 1 .. $verifiers;
	my @failed = grep { waitpid($_, 0); $? != 0 } @pids;
	is(scalar @failed, 0, 'no findings in rows that are changed several times in a transaction');
	is(value($dbh, 'SELECT sum(v) FROM same'), 3 * $writers * $transactions, 'which were changed often');
	value($dbh, 'DROP TABLE same');
	return;
}

# A process that executes this; it ends with status 1 if that fails.
sub fork_session
{
	my ($sql) = @_;
	my $pid = fork() // die "cannot fork: $!";
	return $pid if $pid;
	$dbh->{InactiveDestroy} = 1;
	my $result = run_sql(connect_db($node), $sql);
	print STDERR "$result->{message}\n" if $result->{state};
	POSIX::_exit($result->{state} ? 1 : 0);
	return;
}

sub verify_under_load
{
	my $own  = connect_db($node);
	my $end  = time + $seconds;
	my ($runs, $unfinished) = (0, 0);
	my @found;
	# a table that changes all the time may keep zen_verify() looking again for long
	value($own, q{SET statement_timeout = '30s'});
	while (time < $end && !@found)
	{
		my $done = eval { @found = findings($own); 1 };
		my $cancelled = !$done && $@ =~ /57014/;
		$unfinished += $cancelled;
		push @found, $@ unless $done || $cancelled;
		$runs++;
	}
	note("verified everything $runs times, $unfinished of them not to the end");
	ok($runs > 1, 'more than once');
	return @found;
}

# start_client -- numbers 1 to 5 are clients of the crash test.
sub start_client
{
	my ($id) = @_;
	my $pid = fork() // die "cannot fork: $!";
	return $pid if $pid;
	srand($seed + $id);
	$dbh->{InactiveDestroy} = 1;
	eval {
		if   ($id <= 5) { CrashClient->new(node => $node, id => $id, model => $model{$id}, journal => journal($id),
			round => 1)->run; }
		else            { run_ddl($id, $id == 8 ? \&maintenance : \&ddl); }
		1;
	} or POSIX::_exit(1);
	POSIX::_exit(0);
}

# run_ddl -- execute what the generator gives until the server is gone; errors that are
# no surprise end the transaction.
sub run_ddl
{
	my ($id, $generate) = @_;
	my $own = connect_db($node);
	open(my $fh, '>', journal($id)) or die "cannot write: $!";
	run_sql($own, 'SET lock_timeout = 200');
	while (1)
	{
		for my $sql ($generate->($id))
		{
			syswrite $fh, "S $sql\n";
			my $result = run_sql($own, $sql);
			return if $result->{lost};
			syswrite $fh, "F $sql: $result->{state} $result->{message}\n"
			  unless $result->{state} =~ /^(|25P02|55P03|40P01|42P01|42P07|42704|42710|40001|23505|3B001)$/;
			last if $result->{state} && $sql =~ /^(BEGIN|VACUUM)/;
		}
	}
	return;
}

sub ddl
{
	my ($id) = @_;
	my $t    = "ddl$id" . '_' . between(1, 4);
	my @sql  = map { ddl_statement($t) } 1 .. between(1, 4);
	@sql = ($sql[0], 'SAVEPOINT a', @sql[ 1 .. $#sql ], 'ROLLBACK TO a', ddl_statement($t)) if one_in(4);
	my $end = one_in(3) ? 'ROLLBACK' : 'COMMIT';
	return ('BEGIN', @sql, "PREPARE TRANSACTION 'ddl$id'", 'ROLLBACK', "$end PREPARED 'ddl$id'") if one_in(5);
	return ('BEGIN', @sql, $end, one_in(2) ? 'ROLLBACK' : ());
}

sub ddl_statement
{
	my ($t) = @_;
	my $n = pick(10, 100, 3000);
	return pick(
		"CREATE TABLE IF NOT EXISTS $t (id int, v text, w text) USING zen",
		"CREATE TABLE IF NOT EXISTS $t (id int PRIMARY KEY, v text, w text) USING zen",
		"DROP TABLE IF EXISTS $t",
		"TRUNCATE $t",
		"INSERT INTO $t SELECT g, 'v' || g, repeat('w', g % 500) FROM generate_series(1, $n) g ON CONFLICT DO NOTHING",
		"INSERT INTO $t SELECT -g, repeat(md5(g::text), 200) FROM generate_series(1, 10) g ON CONFLICT DO NOTHING",
		"UPDATE $t SET v = v || 'x' WHERE id % 3 = 0",
		"DELETE FROM $t WHERE id % 4 = 1",
		"CREATE INDEX ON $t (md5(v))",
		"CREATE INDEX IF NOT EXISTS ${t}_w ON $t USING hash (w)",
		"ALTER TABLE $t ADD COLUMN IF NOT EXISTS x int DEFAULT 1",
		"ALTER TABLE $t DROP COLUMN IF EXISTS x",
		"ALTER TABLE $t ALTER id TYPE " . pick('int', 'bigint'),
		"ALTER TABLE $t SET TABLESPACE " . pick('ts', 'pg_default'));
}

# A REINDEX CONCURRENTLY that fails leaves invalid indexes, which each VACUUM FULL builds again; on tables that do not
# live long they do not become many.
sub maintenance
{
	my $t = pick(qw(item acct led mix_z ddl6_1 ddl7_1));
	return pick("VACUUM $t", "VACUUM $t", "ANALYZE $t", "VACUUM FULL $t", "REINDEX TABLE $t",
		'REINDEX TABLE CONCURRENTLY ' . pick(qw(ddl6_1 ddl7_1)));
}
