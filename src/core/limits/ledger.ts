/** Bounds of the ledger of objects, which only workspaces have whose bytes are limited. */

export const LEDGER_LIMITS = {
  /** Room that an upload holds without a sign of life. */
  uploadLeaseMs: 600_000,
  /** Uploads whose process died that one request looks after. */
  uploadsSettledAtOnce: 20,
  /** Objects that are counted when their bytes are limited. */
  objectsCountedMax: 200_000,
} as const
