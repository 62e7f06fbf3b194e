/*
 * fault.c -- the setting zen.fault.  Part of test builds only (make ZEN_FAULTS=1).
 *
 * Faults and values of the setting are both made of ZEN_FAULT_LIST, so none can be missing.
 */
#include "base/fault.h"

#include "utils/guc.h"

#ifndef ZEN_FAULTS
#error "fault.c belongs to test builds only"
#endif

int			zen_fault = ZEN_FAULT_NONE;

static const struct config_enum_entry fault_options[] = {
#define X(name, setting) {setting, ZEN_FAULT_##name, false},
	ZEN_FAULT_LIST(X)
#undef X
	{NULL, 0, false}
};

void
zen_fault_init(void)
{
	DefineCustomEnumVariable("zen.fault",
							 "Breaks one rule of persistence, for tests.",
							 NULL,
							 &zen_fault, ZEN_FAULT_NONE, fault_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
}
