/*
 * product.c -- zen's own src/nvm, compiled for threads, and what it wants of a PostgreSQL server.
 *
 * slotalloc.c, slotread.c, delta.c, page.c, region.c, repair.c and tuple.c are included as they are.  What a backend
 * keeps to itself must be a thread's here: the counters (shim/base/stats.h) and slotalloc.c's memory of contexts,
 * which the macro below turns into a thread-local array.  zen_region_lease() has such a variable, too, and is not
 * used: engines call zen_region_try_lease().
 *
 * The server is replaced by as little as will do: errors go to stderr and end the process, shared memory is malloc's,
 * LWLocks are pthread's, hash tables are lists.
 *
 * persist.c is compiled on its own, see the Makefile: its calls of libpmem go through medium.c.
 */
#include "engine.h"

#include <nmmintrin.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>

#include "base/locks.h"
#include "miscadmin.h"
#include "port/pg_crc32c.h"
#include "storage/fd.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/hsearch.h"

/* From here on stores may be seen by medium.c. */
#include "port/pg_bitutils.h"
#include "nvm/persist.h"
#define zen_nvm_store64 medium_store64

#define pg_popcount64(word)	__builtin_popcountll(word)
#define cache	(*thread_cache())
#include "nvm/slotalloc.c"
#undef cache

/* slotalloc.c has declared this as `static CachedContext cache[CACHE_SIZE]`, so without a prototype. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
static CachedContext (*thread_cache(void))[CACHE_SIZE]
{
	static __thread CachedContext mine[CACHE_SIZE];

	return &mine;
}

#pragma GCC diagnostic pop

#include "nvm/page.c"
#include "nvm/region.c"
#include "nvm/delta.c"
#include "nvm/repair.c"
#include "nvm/slotread.c"
#include "nvm/tuple.c"
#include "server.h"

ZenPool		zen_pool;
ZenSink		zen_sink;
ZenHTable  *zen_htables;
__thread ZenThreadCounters zen_thread_counters;

static LWLockPadded lwlocks[ZEN_NLOCKS];
static pthread_rwlock_t rwlocks[ZEN_NLOCKS] =
{
	[ZEN_LOCK_ALLOC] = PTHREAD_RWLOCK_INITIALIZER,
		[ZEN_LOCK_MARK] = PTHREAD_RWLOCK_INITIALIZER,
};
LWLockPadded *zen_locks = lwlocks;

/* ---------- what base/numa.c and nvm/pool.c would: one node, one file ---------- */

int			zen_numa_nodes = 1;
int			zen_numa_mode = ZEN_NUMA_OFF;
bool		zen_skip_damaged_rows = false;

int
zen_numa_here(void)
{
	return 0;
}

int
zen_numa_distance(int place, int32 number)
{
	return 0;
}

void
zen_numa_count_row(int from, int to, uint64 lines)
{
}

void
zen_numa_count_read(int from, uint64 lines)
{
}

void
zen_numa_count_page(int to)
{
}

uint32
zen_page_skip(uint32 pageno)
{
	return pageno;
}

/* ---------- what the server would define ---------- */

int			MyProcPid = 1;
struct PGPROC *MyProc = NULL;
int			MaxBackends = 1024;
int			max_prepared_xacts = 0;
int			pg_file_create_mode = 0600;

int
pg_fdatasync(int fd)
{
	return fdatasync(fd);
}

void *
ShmemInitStruct(const char *name, Size size, bool *found)
{
	*found = false;
	return calloc(1, size);
}

Size
add_size(Size a, Size b)
{
	return a + b;
}

Size
mul_size(Size a, Size b)
{
	return a * b;
}

bool
LWLockAcquire(LWLock *lock, LWLockMode mode)
{
	pthread_rwlock_t *rwlock = &rwlocks[(LWLockPadded *) lock - lwlocks];

	if (mode == LW_SHARED)
		pthread_rwlock_rdlock(rwlock);
	else
		pthread_rwlock_wrlock(rwlock);
	return true;
}

void
LWLockRelease(LWLock *lock)
{
	pthread_rwlock_unlock(&rwlocks[(LWLockPadded *) lock - lwlocks]);
}

int
s_lock(volatile slock_t *lock, const char *file, int line, const char *func)
{
	while (tas(lock))
		sched_yield();
	return 0;
}

/* A hash table of few entries: one list. */
typedef struct Element
{
	struct Element *next;
	char		entry[FLEXIBLE_ARRAY_MEMBER];
} Element;

struct HTAB
{
	Element    *first;
	Size		keysize;
	Size		entrysize;
};

Size
hash_estimate_size(long num_entries, Size entrysize)
{
	return num_entries * entrysize;
}

HTAB *
ShmemInitHash(const char *name, long init_size, long max_size, HASHCTL *info, int flags)
{
	HTAB	   *table = calloc(1, sizeof(HTAB));

	table->keysize = info->keysize;
	table->entrysize = info->entrysize;
	return table;
}

void *
hash_search(HTAB *table, const void *key, HASHACTION action, bool *found)
{
	Element    *e = table->first;

	while (e != NULL && memcmp(e->entry, key, table->keysize) != 0)
		e = e->next;
	if (found != NULL)
		*found = e != NULL;
	if (e == NULL && action == HASH_ENTER_NULL)
	{
		e = calloc(1, offsetof(Element, entry) + table->entrysize);
		memcpy(e->entry, key, table->keysize);
		e->next = table->first;
		table->first = e;
	}
	return e != NULL ? e->entry : NULL;
}

/* The functions of slotalloc.c that walk its contexts serve DROP TABLE and VACUUM, which no engine has. */
static void
not_here(const char *what)
{
	fprintf(stderr, "engines: %s was called, which has no stand-in\n", what);
	abort();
}

/* For assertions in those functions. */
bool
LWLockHeldByMe(LWLock *lock)
{
	not_here("LWLockHeldByMe");
	return false;
}

void
hash_seq_init(HASH_SEQ_STATUS *status, HTAB *table)
{
	not_here("hash_seq_init");
}

void *
hash_seq_search(HASH_SEQ_STATUS *status)
{
	not_here("hash_seq_search");
	return NULL;
}

/* ---------- what nvm/touched.c would: no map is saved while it runs ---------- */

static ZenTouched no_saves;
ZenTouched *zen_touched = &no_saves;

bool
zen_touched_has_bit(uint32 pageno)
{
	return false;
}

bool
zen_touched_bit(uint32 pageno)
{
	not_here("zen_touched_bit");
	return false;
}

void
zen_touched_store(uint32 pageno, bool on)
{
	not_here("zen_touched_store");
}

void
zen_touched_flush(uint32 pageno)
{
	not_here("zen_touched_flush");
}

/* ---------- errors ---------- */

static __thread int error_level;

bool
errstart(int elevel, const char *domain)
{
	error_level = elevel;
	fputs("engines:", stderr);
	return true;
}

bool
errstart_cold(int elevel, const char *domain)
{
	return errstart(elevel, domain);
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	fputc('\n', stderr);
	if (error_level >= ERROR)
		_exit(2);
}

int
errcode(int sqlerrcode)
{
	return 0;
}

int
errcode_for_file_access(void)
{
	return 0;
}

static void
put_message(const char *fmt, va_list args)
{
	fputc(' ', stderr);
	vfprintf(stderr, fmt, args);
}

#define MESSAGE(name) \
int \
name(const char *fmt,...) \
{ \
	va_list		args; \
\
	va_start(args, fmt); \
	put_message(fmt, args); \
	va_end(args); \
	return 0; \
}

MESSAGE(errmsg)
MESSAGE(errmsg_internal)
MESSAGE(errdetail)

/* The product's hints name settings that do not exist here. */
int
errhint(const char *fmt,...)
{
	return 0;
}

void
ExceptionalCondition(ASSERTION_ARGS)
{
	fprintf(stderr, "engines: assertion failed: %s, %s:%d\n", condition, file, line);
	abort();
}

/* ---------- CRC32C: the server's library may not be installed, and x86-64 has an instruction ---------- */

__attribute__((target("sse4.2")))
static pg_crc32c
crc32c(pg_crc32c crc, const void *data, size_t len)
{
	const unsigned char *p = data;

	for (; len >= 8; p += 8, len -= 8)
	{
		uint64		word;

		memcpy(&word, p, sizeof(word));
		crc = (uint32) _mm_crc32_u64(crc, word);
	}
	for (; len > 0; p++, len--)
		crc = _mm_crc32_u8(crc, *p);
	return crc;
}

#if defined(CRC_IS_SSE42)
pg_crc32c
pg_comp_crc32c_sse42(pg_crc32c crc, const void *data, size_t len)
{
	return crc32c(crc, data, len);
}
#elif defined(CRC_IS_POINTER)
pg_crc32c	(*pg_comp_crc32c) (pg_crc32c crc, const void *data, size_t len) = crc32c;
#endif
