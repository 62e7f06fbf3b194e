/*
 * history.c -- was a verified run serializable?
 *
 * Each transaction notes which versions of which rows it has read and written.  One comes before another if that one
 * has read or replaced what it has written, or has written the version after the one that it has read.  If transactions
 * can be taken away one by one, each when none of those left comes before it, their order is that of a serial run.
 *
 * Where a method allows write skew, the third kind does not count.  What is left of it is that a transaction that
 * reads a row and writes it makes the version after the one it has read.
 *
 * A thread notes its first MAX_NOTES accesses.  A circle among these is a circle, whatever follows.
 */
#include "cc.h"

#define MAX_NOTES	200000

typedef struct Access
{
	uint32		row;
	uint32		version;
	bool		write;
	uint32		txn;
} Access;

typedef struct Notes
{
	Access	   *accesses;
	uint32		n;
	uint32		ntxns;
} Notes;

static Notes notes[MAX_THREADS];
static bool noting;

/* All threads' accesses, by row, version, and then the writer first. */
static Access *all;
static uint32 nall;
static uint32 ntxns;

void
history_open(void)
{
	noting = checking && fault != FAULT_LOST && fault != FAULT_TORN;
	for (int t = 0; noting && t < settings.threads; t++)
	{
		notes[t] = (Notes)
		{
			.accesses = malloc((MAX_NOTES + 2 * MAX_OPS) * sizeof(Access))
		};
		if (notes[t].accesses == NULL)
			die("no memory for a history");
	}
}

static void
add(Notes *to, uint32 row, uint32 version, bool write)
{
	to->accesses[to->n++] = (Access)
	{
		.row = row,.version = version,.write = write,.txn = to->ntxns
	};
}

void
history_note(const struct CcTxn *txn)
{
	Notes	   *mine = &notes[txn->thread];

	if (!noting || mine->n > MAX_NOTES)
		return;
	for (int i = 0; i < txn->n; i++)
	{
		uint32		row = txn->ops[i].row;

		if (cc_reads(&txn->ops[i]))
			add(mine, row, txn->version[i], false);
		if (txn->ops[i].write)
			add(mine, row, model_version(row), true);
		if (txn->ops[i].write && cc_reads(&txn->ops[i]) && txn->version[i] + 1 != model_version(row))
			die("row %u: version %u was read, and %u written over it", row, txn->version[i], model_version(row));
	}
	mine->ntxns++;
}

static int
by_version(const void *a, const void *b)
{
	const Access *x = a;
	const Access *y = b;

	if (x->row != y->row)
		return x->row < y->row ? -1 : 1;
	if (x->version != y->version)
		return x->version < y->version ? -1 : 1;
	return (int) y->write - (int) x->write;
}

static void
gather(void)
{
	nall = ntxns = 0;
	for (int t = 0; t < settings.threads; t++)
		nall += notes[t].n;
	all = malloc((nall + 1) * sizeof(Access));
	if (all == NULL)
		die("no memory for a history");
	nall = 0;
	for (int t = 0; t < settings.threads; t++)
	{
		for (uint32 i = 0; i < notes[t].n; i++)
		{
			all[nall] = notes[t].accesses[i];
			all[nall++].txn += ntxns;
		}
		ntxns += notes[t].ntxns;
	}
	qsort(all, nall, sizeof(Access), by_version);
}

/* The first access to a version, nall if there is none. */
static uint32
first_of(uint32 row, uint32 version)
{
	uint32		from = 0;
	uint32		to = nall;
	Access		wanted = {.row = row,.version = version,.write = true};

	while (from < to)
	{
		uint32		middle = from + (to - from) / 2;

		if (by_version(&all[middle], &wanted) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from < nall && all[from].row == row && all[from].version == version ? from : nall;
}

typedef void (*Follow) (uint32 before, uint32 after);

/* Those that come after an access's transaction because of it. */
static void
each_after(const Access *a, Follow follow)
{
	uint32		next = first_of(a->row, a->version + 1);

	if (next < nall && all[next].write && (a->write || !cc->write_skew) && all[next].txn != a->txn)
		follow(a->txn, all[next].txn);
	if (!a->write)
		return;
	for (uint32 i = first_of(a->row, a->version); i < nall && all[i].row == a->row && all[i].version == a->version; i++)
		if (all[i].txn != a->txn)
			follow(a->txn, all[i].txn);
}

static uint32 *nbefore;			/* by transaction: of those left, how many
								 * come before it */
static uint32 *ready;			/* none */
static uint32 nready;

static void
count_before(uint32 before, uint32 after)
{
	nbefore[after]++;
}

static void
take_away(uint32 before, uint32 after)
{
	if (--nbefore[after] == 0)
		ready[nready++] = after;
}

/* Accesses by transaction: where in all they are. */
static uint32 *
by_transaction(uint32 *first)
{
	uint32	   *list = malloc((nall + 1) * sizeof(uint32));

	for (uint32 i = 0; i < nall; i++)
		first[all[i].txn + 1]++;
	for (uint32 t = 0; t < ntxns; t++)
		first[t + 1] += first[t];
	for (uint32 i = nall; i-- > 0;)
		list[--first[all[i].txn + 1]] = i;
	return list;
}

/* by_transaction() leaves in first[t + 1] where those of t begin. */
static uint32
in_order(void)
{
	uint32	   *first = calloc(ntxns + 2, sizeof(uint32));
	uint32	   *list = by_transaction(first);
	uint32		done = 0;

	for (; done < nready; done++)
	{
		uint32		t = ready[done];
		uint32		to = t + 1 < ntxns ? first[t + 2] : nall;

		for (uint32 i = first[t + 1]; i < to; i++)
			each_after(&all[list[i]], take_away);
	}
	free(first);
	free(list);
	return done;
}

void
history_judge(void)
{
	uint32		done;

	if (!noting)
		return;
	gather();
	nbefore = calloc(ntxns + 1, sizeof(uint32));
	ready = malloc((ntxns + 1) * sizeof(uint32));
	nready = 0;
	for (uint32 i = 0; i < nall; i++)
		each_after(&all[i], count_before);
	for (uint32 t = 0; t < ntxns; t++)
		if (nbefore[t] == 0)
			ready[nready++] = t;
	done = in_order();
	if (done < ntxns)
		die("%s: %u of %u transactions are in a circle, or behind one", cc->name, ntxns - done, ntxns);
}
