/*
 * cut.c -- what a pool and the WAL may look like after a power cut, from the record of medium.c.
 *
 *	cut -l LOG -u BYTES -b BASE [-o POOL] [-z SIZE] [-g SIZE] [-p NUMBER] [-w PG_WAL] [-e | -a UNIT]
 *		(-s SEED | -i INDEX)
 *
 * Replays the record up to BYTES over BASE, the pool as it was before the record began (if there was none yet, SIZE
 * zeroes), and writes the pool with this NUMBER as one of the states in which the cut may have left it.
 * -g: the size of the pool's file at the cut, if that has changed since; a file system keeps it at once.
 * With -w also the WAL files in that folder, which are as at the crash point, are given such a state.  Without -o
 * nothing is written.
 *
 * The pool consists of units, and the cut leaves each of them as it likes.  Each store of a word leads its unit to the
 * next state.  One state is certain; the cut leaves that or any later one.  What is certain depends on the medium:
 *
 * Persistent memory: a unit is a cache line.  It is certain as it was flushed, once the process that flushed it has
 * fenced.  A sync means nothing.
 *
 * -a UNIT, a file on a disk: the kernel holds the stores in its page cache, and may write any page at any moment.  A
 * unit is a page (4096 bytes), or what a disk writes as one (512), or a line of a page that changes while it is
 * written (64).  A sync makes certain what the pages of its range are at that moment.  Flushes and fences mean nothing.
 *
 * SEED 0 keeps only what is guaranteed, SEED 1 all that was stored; others choose, see Manner.  -e, a persistent cache:
 * everything up to some instant, at which all stores have happened that a process had made before a fence of its own.
 * INDEX counts through all states, of which there are as many as printed; only while WAL adds no choice.
 *
 * Prints: number of states (at most 10^9), units that may differ, WAL sectors that may differ, digest of the result.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace.h"

#define SECTOR		512			/* what a disk writes as one */
#define PAGE		4096
#define MAX_STATES	1000000000
#define PIDS		(1 << 22)	/* more than the kernel ever gives */

/* The store of one word, or of a line that the caches had: it leads to the next state of its unit. */
typedef struct Change
{
	uint64_t	at;				/* number of the store, over all units */
	const char *bytes;
	uint32_t	offset;			/* in the unit */
	uint32_t	len;
} Change;

/* A unit that was ever stored to.  State 0 is what the medium has for certain, and stands in the image. */
typedef struct Unit
{
	uint64_t	number;			/* offset / unit */
	uint64_t	first;			/* serial number of state 0 */
	uint64_t	at;				/* number of the store that led to state 0 */
	int			nchanges;		/* states 1 .. nchanges are possible, too */
	int			room;
	Change	   *changes;
} Unit;

/* A line as some process has flushed it. */
typedef struct Pending
{
	int32_t		pid;
	Unit	   *line;
	uint64_t	serial;
} Pending;

static char *image;				/* the pool: what is certain, until all is
								 * chosen */
static char *newest;			/* the pool with all stores, where there is a
								 * Unit */
static char *touched;			/* [page]: not all zero */
static size_t pool_size;		/* of all that is in the record */
static size_t file_size;		/* of the pool's file at the cut */
static uint64_t seed;
static bool by_index = false;
static uint64_t state_index;
static bool persistent_cache = false;
static bool on_disk = false;
static uint64_t unit = LINE;	/* bytes */
static uint64_t *last_store;	/* [pid]: number of its last one */
static uint64_t fenced;			/* of the last store that was followed by a
								 * fence of its process */

static Unit **table;			/* hash by number, open addressing */
static size_t table_size;
static size_t nunits;
static Pending *pending;
static size_t npending,
			pending_room;
static const Record **wal;		/* writes to WAL that were not flushed */
static size_t nwal,
			wal_room;
static uint64_t nstores;
static uint64_t wal_digest;

static void
die(const char *what)
{
	fprintf(stderr, "cut: %s: %s\n", what, strerror(errno));
	exit(2);
}

static void *
grow(void *array, size_t need, size_t *room, size_t size)
{
	if (need <= *room)
		return array;
	*room = need * 2 + 16;
	array = realloc(array, *room * size);
	if (array == NULL)
		die("memory");
	return array;
}

/* ---------- chance ---------- */

static uint64_t
mix(uint64_t x)
{
	x += UINT64_C(0x9E3779B97F4A7C15);
	x = (x ^ (x >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94D049BB133111EB);
	return x ^ (x >> 31);
}

/* A number that depends on the seed and on what it is for, not on the order of calls. */
static uint64_t
chance(uint64_t what, uint64_t which)
{
	return mix(mix(mix(seed) ^ what) ^ which);
}

/* ---------- units ---------- */

static Unit **
slot_of(uint64_t number)
{
	size_t		i = mix(number) & (table_size - 1);

	while (table[i] != NULL && table[i]->number != number)
		i = (i + 1) & (table_size - 1);
	return &table[i];
}

static void
enlarge_table(void)
{
	Unit	  **old = table;
	size_t		old_size = table_size;

	table_size = old_size ? old_size * 2 : 4096;
	table = calloc(table_size, sizeof(Unit *));
	if (table == NULL)
		die("memory");
	for (size_t i = 0; i < old_size; i++)
		if (old[i] != NULL)
			*slot_of(old[i]->number) = old[i];
	free(old);
}

static Unit *
unit_of(uint64_t offset)
{
	uint64_t	number = offset / unit;
	Unit	  **slot = slot_of(number);
	Unit	   *u = *slot;

	if (u != NULL)
		return u;
	u = calloc(1, sizeof(Unit));
	if (u == NULL)
		die("memory");
	u->number = number;
	memcpy(newest + number * unit, image + number * unit, unit);
	touched[number * unit / PAGE] = 1;
	*slot = u;
	if (++nunits * 2 > table_size)
		enlarge_table();
	return u;
}

/* A store to a unit; one that leaves the bytes as they were leads to no other state. */
static void
change(Unit *u, uint64_t offset, const char *bytes, size_t len)
{
	nstores++;
	if (memcmp(newest + offset, bytes, len) == 0)
		return;
	memcpy(newest + offset, bytes, len);
	if (u->nchanges == u->room)
	{
		u->room = u->room * 2 + 2;
		u->changes = realloc(u->changes, u->room * sizeof(Change));
		if (u->changes == NULL)
			die("memory");
	}
	u->changes[u->nchanges++] = (Change) {nstores, bytes, offset % unit, len};
}

static void
apply_changes(const Unit *u, int n)
{
	for (const Change *c = u->changes; c < u->changes + n; c++)
		memcpy(image + u->number * unit + c->offset, c->bytes, c->len);
}

/* Forget states that the medium cannot show any more: state 0 becomes the one with this serial number. */
static void
make_certain(Unit *u, uint64_t serial)
{
	int			skip;

	if (serial <= u->first)
		return;
	skip = serial - u->first;
	apply_changes(u, skip);
	u->at = u->changes[skip - 1].at;
	memmove(u->changes, u->changes + skip, (u->nchanges - skip) * sizeof(Change));
	u->nchanges -= skip;
	u->first = serial;
}

/* ---------- replay ---------- */

/* The words of a store to one line are stored one by one, in an order of chance: the instruction may tear. */
static void
store_in_line(uint64_t offset, const char *bytes, size_t len)
{
	Unit	   *u = unit_of(offset);
	int			begin[LINE / WORD + 1];
	int			n = 0;
	int			first = offset % LINE;
	int			end = first + len;

	for (int at = first; at < end; at = (at / WORD + 1) * WORD)
		begin[n++] = at;
	for (int left = n; left > 0; left--)
	{
		int			i = n > 1 ? chance(nstores, left) % left : 0;
		int			from = begin[i];
		int			to = (from / WORD + 1) * WORD;

		if (to > end)
			to = end;
		begin[i] = begin[left - 1];
		change(u, offset - first + from, bytes + from - first, to - from);
	}
}

static void
replay_store(const Record *r)
{
	static char fills[256][LINE];	/* changes point to their bytes */
	const char *bytes = (const char *) (r + 1);
	char	   *fill = fills[(unsigned char) bytes[0]];
	uint64_t	done = 0;

	memset(fill, bytes[0], LINE);
	while (done < r->len)
	{
		uint64_t	offset = r->offset + done;
		size_t		n = LINE - offset % LINE;

		if (n > r->len - done)
			n = r->len - done;
		store_in_line(offset, r->type == R_FILL ? fill : bytes + done, n);
		done += n;
	}
	if (r->pid < 0 || r->pid >= PIDS)
		die("process number");
	last_store[r->pid] = nstores;
}

/* A store that its process has fenced can be seen, and so are all that came before it. */
static void
note_fence(int32_t pid)
{
	if (last_store[pid] > fenced)
		fenced = last_store[pid];
}

static void
replay_line(const Record *r)
{
	change(unit_of(r->offset), r->offset, (const char *) (r + 1), LINE);
	fenced = nstores;
}

static void
flush_line(Unit *line, int32_t pid)
{
	if (line->nchanges == 0)
		return;
	pending = grow(pending, npending + 1, &pending_room, sizeof(Pending));
	pending[npending++] = (Pending) {pid, line, line->first + line->nchanges};
}

static void
sync_unit(Unit *u, int32_t pid)
{
	make_certain(u, u->first + u->nchanges);
}

/* Do something with all units of which the range has a part. */
static void
in_range(uint64_t offset, uint64_t len, int32_t pid, void (*act) (Unit *u, int32_t pid))
{
	uint64_t	first = offset / unit;
	uint64_t	last = (offset + len - 1) / unit;

	if (len == 0)
		return;
	if (last - first < table_size)
	{
		for (uint64_t n = first; n <= last; n++)
			if (*slot_of(n) != NULL)
				act(*slot_of(n), pid);
		return;
	}
	for (size_t i = 0; i < table_size; i++)
		if (table[i] != NULL && table[i]->number >= first && table[i]->number <= last)
			act(table[i], pid);
}

/* The kernel writes whole pages. */
static void
replay_sync(const Record *r)
{
	uint64_t	first = r->offset & ~(uint64_t) (PAGE - 1);

	in_range(first, ((r->offset + r->len + PAGE - 1) & ~(uint64_t) (PAGE - 1)) - first, r->pid, sync_unit);
}

/* What this process has flushed is certain now, or (a process begins) was never flushed. */
static void
end_pending(int32_t pid, bool fenced)
{
	size_t		kept = 0;

	for (size_t i = 0; i < npending; i++)
	{
		if (pending[i].pid != pid)
			pending[kept++] = pending[i];
		else if (fenced)
			make_certain(pending[i].line, pending[i].serial);
	}
	npending = kept;
}

static void
replay_wal_write(const Record *r)
{
	wal = grow(wal, nwal + 1, &wal_room, sizeof(Record *));
	wal[nwal++] = r;
}

static void
replay_wal_sync(const Record *r)
{
	size_t		kept = 0;

	for (size_t i = 0; i < nwal; i++)
		if (memcmp(wal[i] + 1, r + 1, NAME_BYTES) != 0)
			wal[kept++] = wal[i];
	nwal = kept;
}

static void
replay(const char *log, uint64_t end, int pool)
{
	const Record *r;

	for (uint64_t at = 0; at < end; at += r->size)
	{
		r = (const Record *) (log + at);
		switch (r->type)
		{
			case R_PROCESS:
				end_pending(r->pid, false);
				break;
			case R_STORE:
			case R_FILL:
				if (r->pool == pool)
					replay_store(r);
				break;
			case R_LINE:
				if (r->pool == pool)
					replay_line(r);
				break;
			case R_FLUSH:
				if (r->pool == pool && !on_disk)
					in_range(r->offset, r->len, r->pid, flush_line);
				break;
			case R_SYNC:
				if (r->pool == pool && on_disk)
					replay_sync(r);
				break;
			case R_FENCE:
				end_pending(r->pid, true);
				note_fence(r->pid);
				break;
			case R_WAL_WRITE:
				replay_wal_write(r);
				break;
			case R_WAL_SYNC:
				replay_wal_sync(r);
				break;
			default:
				errno = EINVAL;
				die("bad record");
		}
	}
}

/* ---------- choice ---------- */

/* What a seed does.  Faults show in different ones: a missing fence in ALL_BUT_ONE, a wrong order in ONE_INSTANT. */
typedef enum Manner
{
	NOTHING,					/* only what is guaranteed */
	EVERYTHING,
	ALL_BUT_ONE,				/* one unit holds on to what is guaranteed */
	ONE_INSTANT,				/* every unit as of the same store */
	ONE_ONLY,					/* one unit is written, in any of its states */
	ANY							/* each unit on its own */
} Manner;

static Manner
manner(void)
{
	if (persistent_cache)
		return ONE_INSTANT;
	if (seed < 2)
		return seed == 0 ? NOTHING : EVERYTHING;
	return ALL_BUT_ONE + seed % 4;
}

/* The instant of ONE_INSTANT, as a number of stores; what is certain by then is in it whatever it is. */
static uint64_t
instant(uint64_t earliest)
{
	if (seed == 0)
		return nstores;
	if (seed == 1)
		return earliest;
	return earliest + chance(1, 0) % (nstores - earliest + 1);
}

/* One of the later states of a unit; the last one is as likely as all others together. */
static int
later_state(const Unit *u)
{
	if (chance(2, u->number) % 2)
		return u->nchanges;
	return 1 + chance(3, u->number) % u->nchanges;
}

/* Which of its states does the unit, number i of n that have several, show? */
static int
choose(const Unit *u, uint64_t i, uint64_t n, uint64_t earliest)
{
	bool		is_the_one = chance(4, 0) % n == i;
	int			at;

	if (by_index)
	{
		at = state_index % (u->nchanges + 1);
		state_index /= u->nchanges + 1;
		return at;
	}
	switch (manner())
	{
		case NOTHING:
			return 0;
		case EVERYTHING:
			return u->nchanges;
		case ALL_BUT_ONE:
			return is_the_one ? 0 : u->nchanges;
		case ONE_ONLY:
			return is_the_one ? later_state(u) : 0;
		case ANY:
			return chance(5, u->number) % 8 <= chance(6, 0) % 8 ? later_state(u) : 0;
		case ONE_INSTANT:
			for (at = u->nchanges; at > 0 && u->changes[at - 1].at > instant(earliest); at--)
				;
			return at;
	}
	return 0;
}

static int
by_number(const void *a, const void *b)
{
	const Unit *x = *(Unit *const *) a;
	const Unit *y = *(Unit *const *) b;

	return x->number < y->number ? -1 : x->number > y->number;
}

/* All units, in the order of their addresses, so that an index means the same in each run. */
static Unit **
sorted_units(void)
{
	Unit	  **units = malloc((nunits + 1) * sizeof(Unit *));
	size_t		n = 0;

	if (units == NULL)
		die("memory");
	for (size_t i = 0; i < table_size; i++)
		if (table[i] != NULL)
			units[n++] = table[i];
	qsort(units, n, sizeof(Unit *), by_number);
	return units;
}

/* ---------- WAL ---------- */

/* Put the former contents of a sector, as of before one write, back. */
static void
restore_sector(int fd, const Record *r, uint64_t offset, size_t len)
{
	const char *former = (const char *) (r + 1) + NAME_BYTES;

	if (pwrite(fd, former + (offset - r->offset), len, offset) != (ssize_t) len)
		die("pwrite of WAL");
}

/* Is the write of this sector lost?  Once a write of a sector is kept, so are all before it. */
static bool
sector_lost(size_t write, uint64_t sector)
{
	uint64_t	name;
	size_t		oldest_lost;

	if (by_index || persistent_cache || seed == 0)
		return true;
	if (seed == 1)
		return false;
	/* half of the seeds lose all of it: the harshest, and the usual case */
	if (chance(7, 0) % 2)
		return true;
	memcpy(&name, (const char *) (wal[write] + 1) + 16, sizeof(name));
	oldest_lost = chance(8, mix(name) ^ sector) % (nwal + 1);
	return write >= oldest_lost;
}

static void
cut_wal(const char *dir, bool write, uint64_t *sectors)
{
	*sectors = 0;
	for (size_t i = nwal; i-- > 0;)
	{
		const Record *r = wal[i];
		char		path[4096];
		int			fd;

		snprintf(path, sizeof(path), "%s/%s", dir, (const char *) (r + 1));
		fd = open(path, write ? O_RDWR : O_RDONLY);
		if (fd < 0 && errno == ENOENT)
			continue;			/* recycled: was flushed before */
		if (fd < 0)
			die(path);
		for (uint64_t at = r->offset; at < r->offset + r->len; at += SECTOR)
		{
			++*sectors;
			if (sector_lost(i, at / SECTOR))
			{
				if (write)
					restore_sector(fd, r, at, SECTOR);
				wal_digest += mix(at ^ mix(i));
			}
		}
		close(fd);
	}
}

/* ---------- files ---------- */

static char *
map_log(const char *path)
{
	struct stat st;
	int			fd = open(path, O_RDONLY);
	char	   *mapped;

	if (fd < 0 || fstat(fd, &st) != 0)
		die(path);
	mapped = mmap(NULL, st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (mapped == MAP_FAILED)
		die(path);
	close(fd);
	return mapped;
}

static bool
is_zero(const char *page)
{
	return page[0] == 0 && memcmp(page, page + 1, PAGE - 1) == 0;
}

static char *
sparse_memory(size_t size)
{
	char	   *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		die("memory");
	return base;
}

/* Read what is not a hole: on tmpfs a look at a hole through a mapping would fill it. */
static void
read_pool(const char *path, uint64_t size_if_missing, uint64_t size_at_cut)
{
	struct stat st;
	int			fd = open(path, O_RDONLY);
	off_t		data = 0;

	if (fd < 0 && errno != ENOENT)
		die(path);
	pool_size = size_if_missing;
	if (fd >= 0)
		pool_size = fstat(fd, &st) == 0 ? st.st_size : 0;
	file_size = size_at_cut ? size_at_cut : pool_size;
	if (pool_size < file_size)
		pool_size = file_size;
	image = sparse_memory(pool_size);
	newest = sparse_memory(pool_size);
	touched = calloc(pool_size / PAGE + 1, 1);
	if (touched == NULL || pool_size % PAGE != 0)
		die(path);
	while (fd >= 0 && (data = lseek(fd, data, SEEK_DATA)) >= 0)
	{
		off_t		hole = lseek(fd, data, SEEK_HOLE);

		if (pread(fd, image + data, hole - data, data) != hole - data)
			die(path);
		memset(touched + data / PAGE, 1, (hole - data + PAGE - 1) / PAGE);
		data = hole;
	}
	if (fd >= 0)
		close(fd);
}

static void
write_pool(const char *path)
{
	int			fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (fd < 0 || ftruncate(fd, file_size) != 0)
		die(path);
	for (size_t at = 0; at < file_size; at += PAGE)
		if (touched[at / PAGE] && !is_zero(image + at) && pwrite(fd, image + at, PAGE, at) != PAGE)
			die(path);
	close(fd);
}

static uint64_t
digest(void)
{
	uint64_t	sum = mix(file_size);

	for (size_t at = 0; at < file_size; at += PAGE)
	{
		const uint64_t *word = (const uint64_t *) (image + at);

		for (size_t i = 0; touched[at / PAGE] && i < PAGE / sizeof(uint64_t); i++)
			if (word[i] != 0)
				sum += mix(word[i] ^ mix(at + i));
	}
	return sum;
}

/* ---------- the whole ---------- */

typedef struct Options
{
	const char *log;
	uint64_t	end;
	const char *base;
	const char *out;
	uint64_t	size;
	uint64_t	size_at_cut;
	int			pool;
	const char *wal;
} Options;

static void
usage(void)
{
	fprintf(stderr, "usage: cut -l LOG -u BYTES -b BASE [-o POOL] [-z SIZE] [-g SIZE] [-p NUMBER] [-w PG_WAL] "
			"[-e | -a UNIT] (-s SEED | -i INDEX)\n");
	exit(2);
}

static void
read_options(Options *o, int argc, char **argv)
{
	int			c;

	while ((c = getopt(argc, argv, "l:u:b:o:z:g:p:w:ea:s:i:")) != -1)
		switch (c)
		{
			case 'l':
				o->log = optarg;
				break;
			case 'u':
				o->end = strtoull(optarg, NULL, 10);
				break;
			case 'b':
				o->base = optarg;
				break;
			case 'o':
				o->out = optarg;
				break;
			case 'z':
				o->size = strtoull(optarg, NULL, 10);
				break;
			case 'g':
				o->size_at_cut = strtoull(optarg, NULL, 10);
				break;
			case 'p':
				o->pool = atoi(optarg);
				break;
			case 'w':
				o->wal = optarg;
				break;
			case 'e':
				persistent_cache = true;
				break;
			case 'a':
				on_disk = true;
				unit = strtoull(optarg, NULL, 10);
				break;
			case 's':
				seed = strtoull(optarg, NULL, 10);
				break;
			case 'i':
				by_index = true;
				state_index = strtoull(optarg, NULL, 10);
				break;
			default:
				usage();
		}
	if (!o->log || !o->base || (persistent_cache && on_disk) || (unit != LINE && unit != SECTOR && unit != PAGE))
		usage();
}

int
main(int argc, char **argv)
{
	Options		o = {0};
	uint64_t	states = 1,
				dirty = 0,
				sectors = 0,
				earliest = 0;
	Unit	  **units;

	read_options(&o, argc, argv);
	read_pool(o.base, o.size, o.size_at_cut);
	enlarge_table();
	last_store = calloc(PIDS, sizeof(uint64_t));
	if (last_store == NULL)
		die("memory");
	replay(map_log(o.log), o.end, o.pool);
	units = sorted_units();
	if (persistent_cache)
		earliest = fenced;
	for (size_t i = 0; i < nunits; i++)
	{
		if (units[i]->at > earliest)
			earliest = units[i]->at;
		if (units[i]->nchanges > 0)
		{
			dirty++;
			states *= units[i]->nchanges + 1;
			if (states > MAX_STATES)
				states = MAX_STATES;
		}
	}
	for (size_t i = 0, k = 0; i < nunits; i++)
		if (units[i]->nchanges > 0)
			apply_changes(units[i], choose(units[i], k++, dirty, earliest));
	if (o.out)
		write_pool(o.out);
	if (o.wal)
		cut_wal(o.wal, o.out != NULL, &sectors);
	printf("%llu %llu %llu %016llx\n", (unsigned long long) states, (unsigned long long) dirty,
		   (unsigned long long) sectors, (unsigned long long) (digest() + wal_digest));
	return 0;
}
