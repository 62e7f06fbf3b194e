/*
 * streamread.h -- read one of zen's records from its first byte to its last: for redo and for decoding.
 */
#ifndef ZEN_STREAMREAD_H
#define ZEN_STREAMREAD_H

#include "base/compat.h"

#include "access/xlogreader.h"

typedef struct ZenRecordReader
{
	const char *at;
	const char *end;
	XLogRecPtr	lsn;
} ZenRecordReader;

static inline ZenRecordReader
zen_record_begin(XLogReaderState *record)
{
	ZenRecordReader r;

	r.at = XLogRecGetData(record);
	r.end = r.at + XLogRecGetDataLen(record);
	r.lsn = record->ReadRecPtr;
	return r;
}

/* zen_record_left -- bytes that have not been read. */
static inline Size
zen_record_left(const ZenRecordReader *r)
{
	return r->end - r->at;
}

/* zen_record_take -- copy the next n bytes; false if there are not so many, and then nothing is done. */
static inline bool
zen_record_take(ZenRecordReader *r, void *to, Size n)
{
	if (zen_record_left(r) < n)
		return false;
	memcpy(to, r->at, n);
	r->at += n;
	return true;
}

#endif							/* ZEN_STREAMREAD_H */
