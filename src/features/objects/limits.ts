/** Limits of objects and of the ledger that counts them. */

export const OBJECT_LIMITS = {
  /** Bytes of an object. A larger one is refused with `EntityTooLarge` (413). */
  objectBytesMax: 104_857_600,
  /** Milliseconds without progress for which an upload keeps its reserved bytes. Then they are counted anew. */
  uploadLeaseMs: 600_000,
  /** Uploads with an expired lease that one request counts anew. Later requests count the others. */
  uploadsReconciledMax: 20,
  /** Objects that are counted when the bytes of a workspace are limited. With more, the limit is refused with `value_invalid`. */
  objectsCountedMax: 200_000,
} as const
