/** Limits of objects and of their uploads. */

export const OBJECT_LIMITS = {
  /** Bytes of an object, or of a part, in one request. A larger one is refused with `EntityTooLarge` (413): send it in parts. */
  requestBytesMax: 5_368_709_120,
  /** Tags of an object, as S3 has it. More are refused with `validation_failed`, on the S3 API with `InvalidTag`. */
  tagsMax: 10,
  /** Parts of an upload. Higher numbers are refused with `validation_failed`. */
  partsMax: 10_000,
  /** Bytes of a part, but for the last one. An upload with a smaller one is refused with `EntityTooSmall` at its end. */
  partBytesMin: 5_242_880,
  /** Bytes up to which an import stores an object of an archive at once. A larger one is stored in parts of this size, or of more bytes if it would have more than `partsMax`. */
  restoredPartBytes: 16_777_216,
  /** Milliseconds without a new part for which an upload in parts is kept. Then it is `NoSuchUpload`. */
  multipartLeaseMs: 604_800_000,
  /** Open uploads of a workspace, in parts and resumable ones. Another one is refused with `too_many_uploads` (429) until one of them is complete, deleted or expired. */
  openUploadsMax: 10_000,
  /** Open uploads that one user has begun and may resume. Another one is refused with `too_many_uploads` (429) until one of them is over. */
  openUploadsOfUserMax: 1_000,
  /** Seconds for which a link can be used, if the request names no other time. Then it is refused with `link_expired`. */
  linkSecondsDefault: 900,
  /** Seconds for which a link can be used at most. Longer times are refused with `validation_failed`. */
  linkSecondsMax: 604_800,
  /** Bytes of the smallest part of a resumable upload; the double after each `segmentsPerSize` parts. What is smaller waits for the bytes behind it. */
  segmentBytesMin: 6_291_456,
  /** Parts of a resumable upload of one size. The next ones have the double, so that 10,000 parts suffice for 5 TiB. */
  segmentsPerSize: 1_000,
  /** Factor: so many times that minimum are stored at once. If the process ends, at most so much of an upload is sent again. */
  segmentFactor: 4,
  /** Bytes of a body that the store is promised before they have come; afterwards, as many as have come. If it breaks off, zeros take the place of the others. */
  promisedBytesMin: 1_048_576,
  /** Milliseconds for which the question how far a resumable upload is waits for a request whose bytes the same process stores. Then the answer says what is stored so far. */
  appendAwaitedMs: 2_000,
  /** Milliseconds for which an upload that has expired is known as such (410). Then it is `not_found`. */
  expiredUploadKeptMs: 86_400_000,
  /** Objects that one request, or one transaction of a worker, removes. More keys are refused; more objects below a prefix become an operation. */
  objectsRemovedMax: 1_000,
  /** Milliseconds for which a worker removes objects below one prefix at a time. Then it looks at the removals of others. */
  removalMs: 10_000,
  /** Milliseconds for which such an operation can be read after its end. Then it is `not_found`. */
  removalKeptMs: 604_800_000,
  /** Milliseconds without progress for which an upload keeps its reserved bytes. One that takes longer is refused with `upload_expired` at its end. */
  uploadLeaseMs: 600_000,
  /** Bytes that an upload of unknown length reserves ahead of what has come. Near the limit of the quota it reserves only what has come. */
  reservedAheadBytes: 1_048_576,
  /** Milliseconds for which a blob stays after its object was replaced or deleted. A slower reader of the old object is cut off; an export keeps what it reads for longer. */
  unusedBlobKeptMs: 3_600_000,
  /** Objects and common prefixes of a list of the S3 API. Further ones are on the next page. */
  keysListedMax: 1_000,
  /** Uploads in parts that the sweeper ends at once. The others of the workspace wait for its next turn. */
  uploadsSweptMax: 100,
  /** Sizes of images that a workspace allows. A setting with more is refused with `validation_failed`. */
  imageSizesMax: 32,
  /** Bytes of the converted images that a workspace keeps. Then those that were not read for longest make room. */
  imagesKeptBytesMax: 268_435_456,
  /** Converted images that a workspace keeps. Then those that were not read for longest make room. */
  imagesKeptMax: 10_000,
  /** Milliseconds for which a converted image is kept that nobody reads. Then it is removed, and converted again on request. */
  imageUnreadKeptMs: 2_592_000_000,
  /** Milliseconds between two notes that a converted image was read. What is read meanwhile is not noted. */
  imageReadNotedMs: 3_600_000,
  /** Outcomes of conversions that a process remembers, also failures. The least recently used is forgotten. */
  imageOutcomesMax: 2_000,
  /** Milliseconds for which a process remembers the outcome of a conversion. Then it looks again, or tries again. */
  imageOutcomeMs: 60_000,
  /** Blobs that the sweeper removes at once. The others of the workspace wait for its next turn. */
  blobsSweptMax: 1_000,
} as const
