/** Limits of the OpenAPI document of a workspace. */

export const OPENAPI_LIMITS = {
  /** Collections, functions and flows that the document of a workspace describes, together. With more, it is refused with `output_too_large`. */
  thingsMax: 300,
  /** Bytes of their schemas as JSON, together. With more, the document is refused with `output_too_large`. */
  schemaBytesMax: 1_048_576,
} as const
