/*
 * treedir.c -- which index has which tree, and when a tree goes: src/index/README, "Life".
 */
#include "index/treedir.h"

#include "access/parallel.h"
#include "base/arena.h"
#include "base/locks.h"
#include "catalog/storage.h"
#include "miscadmin.h"
#include "storage/shmem.h"
#include "storage/smgr.h"
#include "utils/memutils.h"

#define BUCKETS	1024

typedef struct Directory
{
	pg_atomic_uint32 n;			/* trees; written under ZEN_LOCK_TREES */
	uint32		in_doubt;		/* under ZEN_LOCK_TREES */
	ZenTree    *buckets[BUCKETS];	/* under ZEN_LOCK_TREES */
} Directory;

/* In rd_amcache. */
typedef struct CachedTree
{
	RelFileLocator loc;
	ZenTree    *tree;
	bool		has_shape;
	ZenTreeShape shape;			/* of its columns only the index's keys */
} CachedTree;

static Directory *directory;
static Oid	dropped_db = InvalidOid;	/* by this transaction */

/*
 * A tree that this transaction builds.  Functions in an index's expressions may have other trees built before it is
 * complete.
 */
typedef struct Unbuilt
{
	ZenTree    *tree;
	int			nest_level;		/* of the transaction */
} Unbuilt;

static List *unbuilt = NIL;		/* in TopTransactionContext */

static void
treedir_shmem_init(void)
{
	bool		found;

	directory = ShmemInitStruct("zen trees", sizeof(Directory), &found);
	if (found)
		return;
	memset(directory, 0, sizeof(Directory));
	pg_atomic_init_u32(&directory->n, 0);
}

const ZenShmem zen_treedir_shmem = {.bytes = sizeof(Directory),.init = treedir_shmem_init};

/* ---------- finding ---------- */

static bool
is_same(const RelFileLocator *a, const RelFileLocator *b)
{
	return ZEN_LOCATOR_NUMBER(*a) == ZEN_LOCATOR_NUMBER(*b) && ZEN_LOCATOR_DB(*a) == ZEN_LOCATOR_DB(*b) &&
		ZEN_LOCATOR_SPC(*a) == ZEN_LOCATOR_SPC(*b);
}

/* The link to a tree in its bucket, or the bucket's last link. */
static ZenTree **
find_link(const RelFileLocator *loc)
{
	ZenTree   **link = &directory->buckets[ZEN_LOCATOR_NUMBER(*loc) % BUCKETS];

	Assert(LWLockHeldByMe(zen_lock(ZEN_LOCK_TREES)));
	while (*link != NULL && !is_same(&(*link)->loc, loc))
		link = &(*link)->next;
	return link;
}

static ZenTree *
treedir_find(const RelFileLocator *loc)
{
	ZenTree    *tree;

	LWLockAcquire(zen_lock(ZEN_LOCK_TREES), LW_SHARED);
	tree = *find_link(loc);
	LWLockRelease(zen_lock(ZEN_LOCK_TREES));
	return tree;
}

bool
zen_tree_exists(const RelFileLocator *loc)
{
	return pg_atomic_read_u32(&directory->n) > 0 && treedir_find(loc) != NULL;
}

ZenTree *
zen_tree_open(Relation index)
{
	CachedTree *cached = index->rd_amcache;
	RelFileLocator loc = zen_rel_locator(index);

	if (likely(cached != NULL && is_same(&cached->loc, &loc)))
		return cached->tree;
	if (cached == NULL)
		cached = MemoryContextAlloc(index->rd_indexcxt, offsetof(CachedTree, shape) +
									zen_shape_size(IndexRelationGetNumberOfKeyAttributes(index)));
	cached->has_shape = false;
	cached->loc = loc;
	cached->tree = treedir_find(&loc);
	/* one that has no tree may get one */
	if (cached->tree == NULL)
	{
		pfree(cached);
		cached = NULL;
	}
	index->rd_amcache = cached;
	return cached != NULL ? cached->tree : NULL;
}

ZenTree *
zen_tree_need(Relation index)
{
	ZenTree    *tree = zen_tree_open(index);

	if (unlikely(tree == NULL || tree->root == NULL))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("index \"%s\" has no tree in memory", RelationGetRelationName(index)),
				 errdetail("It could not be built when the server started.  The server log has the reason."),
				 errhint("Remove the reason, then REINDEX the index.")));
	return tree;
}

/*
 * A tree that is built in place may become one of another kind.
 *
 * I21: making a shape looks at catalogs, and an invalidation during that may free what was remembered.  The shape is
 * made in the caller's memory, and remembered afterwards, if there is a place then.
 */
void
zen_tree_shape(Relation index, const ZenTree *tree, ZenTreeShape *shape)
{
	CachedTree *cached = index->rd_amcache;

	if (likely(cached != NULL && cached->tree == tree && cached->has_shape &&
			   cached->shape.kind == tree->kind && cached->shape.nulls == tree->nulls))
	{
		memcpy(shape, &cached->shape, zen_shape_size(cached->shape.nkeys));
		return;
	}
	zen_shape_make(shape, index, tree->kind, tree->nulls);
	cached = index->rd_amcache;
	if (cached != NULL && cached->tree == tree)
	{
		memcpy(&cached->shape, shape, zen_shape_size(shape->nkeys));
		cached->has_shape = true;
	}
}

/* ---------- coming and going ---------- */

ZenTreeResult
zen_tree_put(ZenTree *tree, const ZenTreeShape *shape, const ZenTreePos *pos, uint64 flags, IndexTuple tuple,
			 const ZenTreeGate *gate)
{
	TimestampTz since = 0;
	ZenTreeResult result;

	while ((result = zen_tree_insert(tree, shape, pos, flags, tuple, gate)) == ZEN_TREE_FULL)
		zen_find_room_or_error(&since);
	return result;
}

static void
treedir_drop(const RelFileLocator *loc)
{
	ZenTree   **link;
	ZenTree    *tree;

	LWLockAcquire(zen_lock(ZEN_LOCK_TREES), LW_EXCLUSIVE);
	link = find_link(loc);
	tree = *link;
	if (tree != NULL)
	{
		*link = tree->next;
		directory->in_doubt -= tree->in_doubt;
		pg_atomic_fetch_sub_u32(&directory->n, 1);
	}
	LWLockRelease(zen_lock(ZEN_LOCK_TREES));
	if (tree == NULL)
		return;
	zen_tree_clear(tree);
	zen_arena_free(tree, sizeof(ZenTree));
}

static void
treedir_link(ZenTree *tree, const RelFileLocator *loc)
{
	tree->loc = *loc;
	LWLockAcquire(zen_lock(ZEN_LOCK_TREES), LW_EXCLUSIVE);
	Assert(*find_link(loc) == NULL && tree->next == NULL);
	*find_link(loc) = tree;
	pg_atomic_fetch_add_u32(&directory->n, 1);
	LWLockRelease(zen_lock(ZEN_LOCK_TREES));
}

/* A tree without a root, in the directory. */
static ZenTree *
treedir_add(const RelFileLocator *loc)
{
	TimestampTz since = 0;
	ZenTree    *tree;

	while ((tree = zen_arena_alloc(sizeof(ZenTree))) == NULL)
		zen_find_room_or_error(&since);
	memset(tree, 0, sizeof(ZenTree));
	SpinLockInit(&tree->lock);
	treedir_link(tree, loc);
	return tree;
}

void
zen_tree_adopt(Relation index, ZenTree *tree)
{
	RelFileLocator loc = zen_rel_locator(index);

	Assert(tree->root != NULL);
	treedir_link(tree, &loc);
}

/* Processes of one parallel query are not kept apart by the locks of a rebuild: then the next build clears the tree. */
static void
note_unbuilt(ZenTree *tree)
{
	MemoryContext old;
	Unbuilt    *u;

	if (IsParallelWorker())
		return;
	old = MemoryContextSwitchTo(TopTransactionContext);
	u = palloc(sizeof(Unbuilt));
	u->tree = tree;
	u->nest_level = GetCurrentTransactionNestLevel();
	unbuilt = lappend(unbuilt, u);
	MemoryContextSwitchTo(old);
}

/* The tree of a file stays where it is: other processes remember its address. */
ZenTree *
zen_tree_create(Relation index, ZenTreeKind kind, bool nulls)
{
	RelFileLocator loc = zen_rel_locator(index);
	TimestampTz since = 0;
	ZenTree    *tree = treedir_find(&loc);

	if (tree == NULL)
		tree = treedir_add(&loc);
	zen_tree_clear(tree);
	note_unbuilt(tree);
	while (!zen_tree_setup(tree, kind, nulls))
		zen_find_room_or_error(&since);
	return tree;
}

void
zen_tree_is_built(ZenTree *tree)
{
	ListCell   *lc;

	Assert(tree->root != NULL);
	foreach(lc, unbuilt)
	{
		if (((Unbuilt *) lfirst(lc))->tree == tree)
			unbuilt = foreach_delete_current(unbuilt, lc);
	}
}

/*
 * Free what an aborted build has made, as it would fill the DRAM.  Its workers have ended, and its locks are still
 * held, so no other process is in these trees.
 */
static void
clear_unbuilt(int nest_level)
{
	ListCell   *lc;

	foreach(lc, unbuilt)
	{
		Unbuilt    *u = lfirst(lc);

		if (u->nest_level < nest_level)
			continue;
		zen_tree_clear(u->tree);
		unbuilt = foreach_delete_current(unbuilt, lc);
	}
}

/* ---------- the end of a transaction ---------- */

static void
treedir_doubt(const RelFileLocator *loc)
{
	ZenTree    *tree;

	LWLockAcquire(zen_lock(ZEN_LOCK_TREES), LW_EXCLUSIVE);
	tree = *find_link(loc);
	if (tree != NULL && !tree->in_doubt)
	{
		tree->in_doubt = true;
		directory->in_doubt++;
	}
	LWLockRelease(zen_lock(ZEN_LOCK_TREES));
}

/* Do something with the trees of all files that go at commit, or at abort. */
static void
for_files(bool commit, void (*act) (const RelFileLocator *loc))
{
	RelFileLocator *files;
	int			n;

	if (pg_atomic_read_u32(&directory->n) == 0)
		return;
	n = smgrGetPendingDeletes(commit, &files);
	for (int i = 0; i < n; i++)
		act(&files[i]);
	if (n > 0)
		pfree(files);
}

/* The next tree that satisfies a test: one at a time, as the list may change. */
static bool
find_next(bool (*test) (const ZenTree *tree), RelFileLocator *loc)
{
	bool		found = false;

	LWLockAcquire(zen_lock(ZEN_LOCK_TREES), LW_SHARED);
	for (int i = 0; i < BUCKETS && !found; i++)
	{
		for (ZenTree *t = directory->buckets[i]; t != NULL && !found; t = t->next)
		{
			found = test(t);
			if (found)
				*loc = t->loc;
		}
	}
	LWLockRelease(zen_lock(ZEN_LOCK_TREES));
	return found;
}

static bool
is_of_dropped_db(const ZenTree *tree)
{
	return ZEN_LOCATOR_DB(tree->loc) == dropped_db;
}

static void
drop_database(void)
{
	RelFileLocator loc;

	while (OidIsValid(dropped_db) && find_next(is_of_dropped_db, &loc))
		treedir_drop(&loc);
}

void
zen_treedir_event(XactEvent event)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
			for_files(true, treedir_drop);
			drop_database();
			break;
		case XACT_EVENT_ABORT:
			clear_unbuilt(0);
			for_files(false, treedir_drop);
			break;
		case XACT_EVENT_PREPARE:
			for_files(true, treedir_doubt);
			for_files(false, treedir_doubt);
			break;
		default:
			return;
	}
	Assert(unbuilt == NIL);
	dropped_db = InvalidOid;
}

void
zen_treedir_subevent(SubXactEvent event, SubTransactionId subxact)
{
	if (event != SUBXACT_EVENT_ABORT_SUB)
		return;
	clear_unbuilt(GetCurrentTransactionNestLevel());
	for_files(false, treedir_drop);
}

void
zen_tree_database_dropped(Oid db)
{
	dropped_db = db;
}

/* Trees in doubt, not yet looked at by zen_tree_settle(). */
static List *looked_at = NIL;

static bool
is_to_be_looked_at(const ZenTree *tree)
{
	return tree->in_doubt && !list_member_ptr(looked_at, tree);
}

/* The init fork tells if a file is gone.  The main fork's name stays until the next checkpoint. */
void
zen_tree_settle(void)
{
	RelFileLocator loc;

	if (directory->in_doubt == 0)	/* unlocked look: this process's own
									 * prepared transaction is in it */
		return;
	looked_at = NIL;
	while (find_next(is_to_be_looked_at, &loc))
	{
		ZenTree    *tree = treedir_find(&loc);

		if (!smgrexists(smgropen(loc, INVALID_PROC_NUMBER), INIT_FORKNUM))
			treedir_drop(&loc);
		else if (tree != NULL)
			looked_at = lappend(looked_at, tree);
	}
	list_free(looked_at);
	looked_at = NIL;
}

/* ---------- views ---------- */

ZenTreeInfo *
zen_tree_list(int *n)
{
	int			room = (int) pg_atomic_read_u32(&directory->n) + 16;
	ZenTreeInfo *list = palloc(room * sizeof(ZenTreeInfo));

	*n = 0;
	LWLockAcquire(zen_lock(ZEN_LOCK_TREES), LW_SHARED);
	for (int i = 0; i < BUCKETS; i++)
	{
		for (ZenTree *t = directory->buckets[i]; t != NULL && *n < room; t = t->next)
		{
			ZenTreeInfo *info = &list[*n];

			if (ZEN_LOCATOR_DB(t->loc) != MyDatabaseId)
				continue;
			info->loc = t->loc;
			info->kind = t->kind;
			info->height = t->root != NULL ? t->root->level + 1 : 0;
			info->nodes = pg_atomic_read_u32(&t->nodes);
			info->bytes = info->nodes * ZEN_NODE_SIZE + pg_atomic_read_u64(&t->tuple_bytes);
			(*n)++;
		}
	}
	LWLockRelease(zen_lock(ZEN_LOCK_TREES));
	return list;
}
