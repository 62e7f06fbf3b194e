/*
 * poolgrow.c -- zen_pool_grow(): the pool is made larger by a command.
 */
#include "base/compat.h"

#include "fmgr.h"
#include "nvm/grow.h"
#include "nvm/pool.h"
#include "nvm/poolfile.h"
#include "recovery/gate.h"
#include "utils/builtins.h"
#include "utils/guc.h"

PG_FUNCTION_INFO_V1(zen_pool_grow);

#define MB(bytes)	((bytes) / (1024 * 1024))

/* A size as zen.pool_size is written, in bytes. */
static Size
parse_size(const char *text)
{
	const char *hint = NULL;
	int			mb;

	if (!parse_int(text, &mb, GUC_UNIT_MB, &hint) || mb <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("invalid size of a zen pool: \"%s\"", text),
				 hint ? errhint("%s", hint) : errhint("Write it as zen.pool_size is written: '20GB'.")));
	return (Size) mb * 1024 * 1024;
}

static void
check_file(int file)
{
	if (file < 0 || file >= zen_pool.nfiles)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the zen pool has no file %d", file),
				 errhint("zen_pool_files lists its files.")));
}

static void
check_size(int file, Size size)
{
	if (size < zen_file_size(file))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a zen pool cannot become smaller"),
				 errdetail("It has %zu MB, %zu MB were asked for.", MB(zen_file_size(file)), MB(size)),
				 errhint("The argument of zen_pool_grow() is the pool's new size.")));
	if (size > zen_grow_max_size(file))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("the zen pool cannot grow to %zu MB while the server runs", MB(size)),
				 errdetail("There is address space for %zu MB.", MB(zen_grow_max_size(file))),
				 file == zen_pool.nfiles - 1 ?
				 errhint("Raise zen.pool_max_size, or zen.pool_size itself, and restart the server.") :
				 errhint("This file cannot become larger than that, since another one was added behind it.  Grow that "
						 "one, or add one to zen.pool_path.")));
}

/* zen_pool_grow -- see doc/functions.md. */
Datum
zen_pool_grow(PG_FUNCTION_ARGS)
{
	Size		size = parse_size(text_to_cstring(PG_GETARG_TEXT_PP(0)));
	int			file = PG_GETARG_INT32(1);
	Size		before,
				after;

	zen_gate();
	if (file == -1)
		file = zen_pool.nfiles - 1;
	check_file(file);
	check_size(file, size);
	before = zen_file_size(file);
	after = zen_grow_to(file, size, ERROR);
	if (after == before)
		ereport(NOTICE,
				(errmsg("the zen pool has %zu MB already", MB(after))));
	else
		ereport(LOG,
				(errmsg("zen pool file \"%s\" has grown from %zu to %zu MB",
						zen_files[file].path, MB(before), MB(after))));
	PG_RETURN_INT64((int64) after);
}
