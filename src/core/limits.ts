/** Limits of requests, names and values that all of the platform shares. How a limit is described: docs/limits.md. */

export const CORE_LIMITS = {
  // Requests
  /** Bytes of a request's URL. A longer one is refused with `uri_too_long` (414). */
  urlBytesMax: 8_192,
  /** Bytes of a request's headers. More are refused with `headers_too_large` (431). */
  headerBytesMax: 16_384,
  /** Bytes of a request's body, unless its operation states another limit. More are refused with `body_too_large` (413). */
  bodyBytesMax: 1_048_576,
  /** Items of a page if the request states no size. Further ones are on the next page. */
  pageItemsDefault: 50,
  /** Items of a page that a request may ask for. A larger number is refused with `validation_failed`. */
  pageItemsMax: 200,
  /** Diagnostics, faulty fields or suggested names in one response. Further ones are left out. */
  diagnosticsReturnedMax: 20,

  // Names
  /** Characters of a display name. A longer one is refused with `validation_failed`; one from outside is cut. */
  nameCharsMax: 200,
  /** Characters of the id of a subject or document. A longer one is refused with `validation_failed`. */
  subjectCharsMax: 200,
  /** Bytes of an object's key. A longer one is refused with `KeyTooLongError`. */
  objectKeyBytesMax: 1_024,
  /** Characters of a field name that is taken for the name of a secret. Fields with longer names are not redacted by name. */
  secretNameCharsMax: 40,
  /** Names of fields for which a process remembers whether they name a secret. The least recently used is forgotten. */
  secretNamesCachedMax: 2_000,

  // Values
  /** Levels of nesting of a document, and of an operand of a filter. A deeper one is refused with `validation_failed`. */
  documentDepthMax: 32,
  /** Levels of nesting of inputs, outputs and responses of flows and functions. A deeper one is refused. */
  valueDepthMax: 64,
  /** Bytes of the output of a call or a flow, which readers hold in memory. A larger one fails with `output_too_large`. */
  outputBytesMax: 4_194_304,
} as const
