# CrashVerify -- what must hold after a crash, given what the clients' journals say.
#
# Every function takes a list $wrong and adds a text for each thing that it finds
# wrong; nothing is printed here.

package CrashVerify;

use strict;
use warnings;

use CrashModel;
use Exporter 'import';
use ZenTest;

our @EXPORT = qw(
  check_rows check_history check_prepared settle_prepared check_sums check_indexes vacuum_all
);

# Conditions that an index can answer, for each index of item, and the kinds of
# scan that must use it.  No other index of the table fits the condition.
my @index_conditions = (
	[ 'item_pkey',     'key >= 0',            'index', 'bitmap' ],
	[ 'item_code_key', q{code >= ''},         'index', 'bitmap' ],
	[ 'item_grp',      'grp >= 0',            'index', 'bitmap' ],
	[ 'item_grp',      'grp IS NULL',         'index', 'bitmap' ],
	[ 'item_lcode',    q{lower(code) >= ''},  'index', 'bitmap' ],
	[ 'item_prio',     'prio > 0',            'index', 'bitmap' ],
	[ 'item_tag',      'tag = 3',             'index', 'bitmap' ],
	[ 'item_tag',      '(tag = 1 OR tag = 6)', 'bitmap' ],
	[ 'item_tags',     q{tags && '{1,2,3,4,5,6,7,8,9,10}'}, 'bitmap' ],
	[ 'item_client',   'client >= 0',         'bitmap' ],
);

# --- rows against models ----------------------------------------------------

# fetch_rows -- all rows of all clients: { client => { table => { key => line } } }.
sub fetch_rows
{
	my ($dbh) = @_;
	my %rows;
	value($dbh, 'SET enable_indexscan = off');
	value($dbh, 'SET enable_bitmapscan = off');
	for my $table (sort keys %line_of)
	{
		my ($relation, $key, $line) = @{ $line_of{$table} };
		my $result = run_sql($dbh, "SELECT client, $key, $line FROM $relation");
		die "cannot read $relation: $result->{message}" if $result->{state};
		$rows{ $_->[0] }{$table}{ $_->[1] } = $_->[2] for @{ $result->{rows} };
	}
	value($dbh, 'RESET ALL');
	return \%rows;
}

# differences -- between a client's model and the tables, as texts.
sub differences
{
	my ($model, $rows) = @_;
	my @texts;
	for my $table (sort keys %line_of)
	{
		my $expected = $model->{ $table =~ /^mix/ ? 'mix' : $table } || {};
		my $found    = $rows->{$table} || {};
		for my $key (sort { $a <=> $b } keys %$expected)
		{
			if (!defined $found->{$key})
			{
				push @texts, "$table: row $key is lost ($expected->{$key})";
			}
			elsif ($found->{$key} ne $expected->{$key})
			{
				push @texts, "$table: row $key is $found->{$key}, not $expected->{$key}";
			}
		}
		push @texts, map { "$table: row $_ should not be there ($found->{$_})" }
		  grep { !defined $expected->{$_} } sort { $a <=> $b } keys %$found;
	}
	return @texts;
}

# check_rows -- every client's rows are exactly those of its model, or those of its
# model after the one transaction whose fate it does not know; the model is brought
# up to date then.  Returns the number of such transactions found committed.
sub check_rows
{
	my ($dbh, $models, $journals, $wrong) = @_;
	my $rows      = fetch_rows($dbh);
	my $committed = 0;

	for my $id (sort { $a <=> $b } keys %$models)
	{
		my $unknown = delete $journals->{$id}{unknown};
		my @differ  = differences($models->{$id}, $rows->{$id}) or next;
		if ($unknown)
		{
			my %after = map { $_ => { %{ $models->{$id}{$_} } } } keys %{ $models->{$id} };
			apply_changes(\%after, $unknown);
			my @differ_after = differences(\%after, $rows->{$id});
			if (!@differ_after)
			{
				$models->{$id} = \%after;
				$committed++;
				next;
			}
			push @$wrong, "client $id: a transaction in flight is neither there nor absent";
			@differ = @differ_after if @differ_after < @differ;
		}
		my $more = @differ > 8 ? ' and ' . (@differ - 8) . ' more' : '';
		push @$wrong, "client $id: " . join('; ', grep { defined } @differ[ 0 .. 7 ]) . $more;
	}
	return $committed;
}

# --- asynchronous commits ----------------------------------------------------

# prefixes -- the numbers of transactions of a history behind which a client's rows are those that were found: the least
# and the greatest, or () if there is none.  Of transactions that change nothing nobody can tell.
sub prefixes
{
	my ($model, $history, $rows) = @_;
	my (%now, %wrong, @fit);
	my $look = sub {
		my ($table, $key) = @_;
		my $right = $now{$table}{$key} // 'none';
		delete $wrong{"$table $key"};
		for my $found ($table eq 'mix' ? ('mix_z', 'mix_h') : ($table))
		{
			$wrong{"$table $key"} = 1 if ($rows->{$found}{$key} // 'none') ne $right;
		}
	};
	%now = map { $_ => { %{ $model->{$_} || {} } } } qw(item led mix);
	for my $table (qw(item led mix))
	{
		my @found = map { keys %{ $rows->{$_} || {} } } $table eq 'mix' ? ('mix_z', 'mix_h') : ($table);
		$look->($table, $_) for keys %{ { map { $_ => 1 } @found, keys %{ $now{$table} } } };
	}
	for my $n (0 .. @$history)
	{
		my $changes = $n ? $history->[ $n - 1 ]{changes} : {};
		apply_changes(\%now, $changes);
		for my $table (grep { $_ ne 'lock' } keys %$changes)
		{
			$look->($table, $_) for keys %{ $changes->{$table} };
		}
		push @fit, $n if !%wrong;
	}
	return @fit ? ($fit[0], $fit[-1]) : ();
}

# check_history -- of clients some of which commit asynchronously: each one's rows are those behind so many of its
# transactions; what is lost was not flushed, and is a suffix over all clients: no transaction is there that was begun
# to commit after a lost one was acknowledged.  The models are brought up to date.  Returns how many were lost.
sub check_history
{
	my ($dbh, $models, $journals, $wrong) = @_;
	my $rows = fetch_rows($dbh);
	my ($lost, $first_lost, $last_found) = (0, 9e99, 0);
	for my $id (sort { $a <=> $b } keys %$models)
	{
		my $history = delete $journals->{$id}{history};
		my ($least, $most) = prefixes($models->{$id}, $history, $rows->{$id} || {});
		if (!defined $least)
		{
			my %after = map { $_ => { %{ $models->{$id}{$_} } } } keys %{ $models->{$id} };
			apply_changes(\%after, $_->{changes}) for @$history;
			my @differ = differences(\%after, $rows->{$id});
			push @$wrong, "client $id: what is there is behind none of its transactions; the last would need: "
			  . join '; ', grep { defined } @differ[ 0 .. 7 ];
			next;
		}
		for my $i ($most .. $#$history)
		{
			$lost++ if defined $history->[$i]{acked};
			push @$wrong, "client $id: a transaction is lost that was flushed" if $history->[$i]{flushed};
			$first_lost = $history->[$i]{acked} if ($history->[$i]{acked} // 9e99) < $first_lost;
		}
		for my $i (0 .. $least - 1)
		{
			$last_found = $history->[$i]{sent} if $history->[$i]{sent} > $last_found;
		}
		apply_changes($models->{$id}, $_->{changes}) for @$history[ 0 .. $most - 1 ];
	}
	push @$wrong, "a transaction is lost that was acknowledged at $first_lost, and one that began to commit at "
	  . "$last_found is there" if $last_found > $first_lost;
	return $lost;
}

# --- prepared transactions --------------------------------------------------

# check_prepared -- what PREPARE promised is still there.
#
# A transaction that was acknowledged as prepared must be listed unless its end was
# asked for.  Ends that were reached are applied to the models; what is left in
# $journals->{id}{prepared} is listed.  Call it before check_rows, which sees that
# the rows of listed transactions are invisible.
sub check_prepared
{
	my ($dbh, $models, $journals, $wrong) = @_;
	my $result = run_sql($dbh, 'SELECT gid FROM pg_prepared_xacts');
	my %listed = map { $_->[0] => 1 } @{ $result->{rows} };

	for my $id (sort { $a <=> $b } keys %$journals)
	{
		my $prepared = $journals->{$id}{prepared};
		for my $gid (sort keys %$prepared)
		{
			next if delete $listed{$gid};
			my $asked = $prepared->{$gid}{asked};
			push @$wrong, "prepared transaction $gid is lost" if $asked eq 'PA';
			if ($asked eq 'CI' && $journals->{$id}{keeps})
			{
				push @{ $journals->{$id}{history} }, { changes => $prepared->{$gid}{changes},
					sent => $prepared->{$gid}{sent}, acked => undef, flushed => 1 };
			}
			elsif ($asked eq 'CI') { apply_changes($models->{$id}, $prepared->{$gid}{changes}); }
			delete $prepared->{$gid};
		}
	}
	push @$wrong, "prepared transaction $_ should not be there" for sort keys %listed;
	return;
}

# check_locked -- rows that a prepared transaction has written or locked are locked.
sub check_locked
{
	my ($dbh, $gid, $model, $changes, $wrong) = @_;
	my %touched = (%{ $changes->{item} || {} }, %{ $changes->{lock} || {} });
	my $tried   = 0;
	for my $key (sort { $a <=> $b } keys %touched)
	{
		next unless defined $model->{item}{$key};
		my $result = run_sql($dbh, "SELECT 1 FROM item WHERE key = $key FOR UPDATE NOWAIT");
		push @$wrong, "row $key of prepared transaction $gid is not locked"
		  if $result->{state} ne '55P03';
		last if ++$tried >= 20;
	}
	my ($new) = grep { defined $changes->{item}{$_} && !defined $model->{item}{$_} }
	  sort { $a <=> $b } keys %{ $changes->{item} };
	return unless defined $new;

	value($dbh, q{SET lock_timeout = '20ms'});
	my $result = run_sql($dbh,
		"INSERT INTO item VALUES ($new, 0, 0, 0, 'other$new', 0, '{}', 0, NULL)");
	push @$wrong, "prepared insert of key $new by $gid does not hold up another one"
	  . " ($result->{state} $result->{tag})"
	  if $result->{state} ne '55P03';
	value($dbh, 'RESET lock_timeout');
	return;
}

# settle_prepared -- check the locks of all listed transactions, then end each by
# COMMIT PREPARED or ROLLBACK PREPARED.  Returns their number.
sub settle_prepared
{
	my ($dbh, $models, $journals, $wrong) = @_;
	my $count = 0;
	for my $id (sort { $a <=> $b } keys %$journals)
	{
		my $prepared = $journals->{$id}{prepared};
		for my $gid (sort keys %$prepared)
		{
			my $changes = delete($prepared->{$gid})->{changes};
			my $verb    = one_in(2) ? 'COMMIT' : 'ROLLBACK';
			check_locked($dbh, $gid, $models->{$id}, $changes, $wrong);
			value($dbh, "$verb PREPARED '$gid'");
			apply_changes($models->{$id}, $changes) if $verb eq 'COMMIT';
			$count++;
		}
	}
	return $count;
}

# --- sums -------------------------------------------------------------------

# check_sums -- money is conserved, every balance is the sum of the transfers, and
# the rows of mixed transactions are on both sides.  No transaction may be prepared.
sub check_sums
{
	my ($dbh, $wrong) = @_;
	my ($start, $total) = (START_BALANCE, 2 * ACCOUNTS * START_BALANCE);

	my $sum = value($dbh,
		'SELECT (SELECT sum(bal) FROM acct) + (SELECT sum(bal) FROM acct_h)');
	push @$wrong, "the sum of all balances is $sum, not $total" if $sum != $total;

	my $bad = run_sql($dbh, <<"END");
SELECT a.id, a.bal, $start + coalesce(l.change, 0)
FROM (SELECT * FROM acct UNION ALL SELECT * FROM acct_h) a
LEFT JOIN (SELECT id, sum(change) AS change
		   FROM (SELECT src AS id, -amount AS change FROM led
				 UNION ALL SELECT dst, amount FROM led) m
		   GROUP BY id) l USING (id)
WHERE a.bal <> $start + coalesce(l.change, 0)
END
	push @$wrong, map { "account $_->[0] has $_->[1], its transfers say $_->[2]" }
	  @{ $bad->{rows} };

	$bad = run_sql($dbh, <<'END');
SELECT coalesce(z.key, h.key), z.val, h.val FROM mix_z z FULL JOIN mix_h h USING (key)
WHERE (z.key, z.client, z.val, z.note) IS DISTINCT FROM (h.key, h.client, h.val, h.note)
END
	push @$wrong,
	  map { "mixed row $_->[0]: zen has " . ($_->[1] // 'none') . ', heap ' . ($_->[2] // 'none') }
	  @{ $bad->{rows} };
	return;
}

# --- indexes ----------------------------------------------------------------

# checksum -- number and checksum of the rows that a condition selects, read by one
# kind of scan; undef, and an entry in $wrong, if the plan does not use $index.
sub checksum
{
	my ($dbh, $scan, $table, $columns, $condition, $index, $wrong) = @_;
	my %enable = (
		seq    => { seqscan => 'on' },
		index  => { indexscan => 'on' },
		only   => { indexonlyscan => 'on', indexscan => 'on' },
		bitmap => { bitmapscan => 'on' });
	for my $kind (qw(seqscan indexscan indexonlyscan bitmapscan))
	{
		value($dbh, "SET enable_$kind = " . ($enable{$scan}{$kind} || 'off'));
	}
	my $sql = "SELECT count(*) || ' rows, ' || coalesce(md5(string_agg(line, ' ' ORDER BY line)), '')"
	  . " FROM (SELECT $columns AS line FROM $table WHERE $condition) x";
	if (defined $index)
	{
		my $plan = join "\n", map { $_->[0] } @{ run_sql($dbh, "EXPLAIN $sql")->{rows} };
		if ($plan !~ /\b\Q$index\E\b/ || ($scan eq 'only' && $plan !~ /Index Only/))
		{
			push @$wrong, "no $scan scan of $index for $condition:\n$plan";
			return;
		}
	}
	return value($dbh, $sql);
}

# compare_scans -- each kind of scan must give what the sequential scan gives.
sub compare_scans
{
	my ($dbh, $table, $columns, $index, $condition, $scans, $wrong) = @_;
	my $right = checksum($dbh, 'seq', $table, $columns, $condition, undef, $wrong);
	for my $scan (@$scans)
	{
		my $found = checksum($dbh, $scan, $table, $columns, $condition, $index, $wrong);
		push @$wrong,
		  "$scan scan of $index where $condition: $found; sequential scan: $right"
		  if defined $found && $found ne $right;
	}
	return;
}

# check_indexes -- sequential scan and every index agree.  With $amcheck the btrees
# are also checked against their tables entry by entry.
sub check_indexes
{
	my ($dbh, $amcheck, $wrong) = @_;
	my $item = q{concat_ws('|', key, client, grp, val, code, tag, tags, prio)};

	# Few rows in a table would let the planner prefer another path.
	value($dbh, 'SET cpu_operator_cost = 0');
	for (@index_conditions)
	{
		my ($index, $condition, @scans) = @$_;
		compare_scans($dbh, 'item', $item, $index, $condition, \@scans, $wrong);
	}
	compare_scans($dbh, 'item', 'key::text',      'item_pkey', 'key >= 0', ['only'], $wrong);
	compare_scans($dbh, 'item', 'prio::text',     'item_prio', 'prio > 0', ['only'], $wrong);
	compare_scans($dbh, 'acct', q{id || ':' || bal}, 'acct_pkey', 'id > 0', [ 'index', 'bitmap' ], $wrong);
	compare_scans($dbh, 'acct', q{id || ':' || bal}, 'acct_bal', 'bal > -1000000000', [ 'index', 'bitmap' ], $wrong);
	compare_scans($dbh, 'led', q{concat_ws('|', client, n, src, dst, amount)},
		'led_pkey', 'client >= 0', [ 'index', 'bitmap' ], $wrong);
	compare_scans($dbh, 'mix_z', q{concat_ws('|', key, val, note)},
		'mix_z_pkey', 'key >= 0', [ 'index', 'bitmap' ], $wrong);
	compare_scans($dbh, 'mix_z', q{concat_ws('|', key, val, note)},
		'mix_z_val', 'val >= 0', [ 'index', 'bitmap' ], $wrong);
	value($dbh, 'RESET ALL');
	return unless $amcheck;

	my $btrees = run_sql($dbh, <<'END');
SELECT c.relname FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid
JOIN pg_am a ON a.oid = c.relam
WHERE a.amname = 'btree' AND c.relnamespace = 'public'::regnamespace ORDER BY 1
END
	for my $index (map { $_->[0] } @{ $btrees->{rows} })
	{
		my $result = run_sql($dbh, "SELECT bt_index_check('$index', true)");
		push @$wrong, "$index: $result->{message}" if $result->{state};
	}
	return;
}

sub vacuum_all
{
	my ($dbh) = @_;
	value($dbh, "VACUUM (ANALYZE) $_") for qw(item acct led mix_z mix_h acct_h);
	return;
}

1;
