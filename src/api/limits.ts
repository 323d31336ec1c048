/** Limits of connections, bodies and streams of the HTTP server. */

export const API_LIMITS = {
  /** Milliseconds in which the headers of a request arrive. Then the connection is closed. */
  headersTimeoutMs: 15_000,
  /** Milliseconds in which the body of a request arrives. Then the request is refused and its connection closed. */
  bodyTimeoutMs: 300_000,
  /** Bytes of a streamed body that allow it another second each. A slower upload is refused. */
  uploadBytesPerSecondMin: 16_384,
  /** Milliseconds in which the body of an unauthenticated request to the issuer arrives. Then the request is refused. */
  issuerBodyMs: 10_000,
  /** Bytes of a client's registration of itself. More are refused with `body_too_large` (413). */
  registrationBytesMax: 16_384,
  /** Milliseconds between two checks of connections for these timeouts. Then those that are late are closed. */
  connectionsCheckMs: 5_000,
  /** Milliseconds for which the rest of a refused body is read. Then the connection is closed. */
  drainMs: 5_000,
  /** Bytes of that rest: four times the largest body of an operation. Then the connection is closed. */
  drainBytesMax: 17_825_792,
  /** Milliseconds for which the connection stays open after these bytes. Then it is closed. */
  drainLingerMs: 500,
  /** Milliseconds without a byte sent or received on a stream of an object. Then the stream ends. */
  streamStallMs: 30_000,
  /** Levels of nesting of an input with an idempotency key; no operation accepts deeper input. A deeper one is refused. */
  idempotencyInputDepthMax: 100,
  /** Senders of webhooks with a valid signature whom failures behind the same address do not block. The least recently used is forgotten. */
  webhookSendersKnownMax: 10_000,
  /** Milliseconds between the time of a signature and that of the server. A request with a greater difference is refused with `RequestTimeTooSkewed`. */
  signatureSkewMs: 900_000,
  /** Seconds for which a presigned URL may be valid. A URL with more is refused. */
  presignedSecondsMax: 604_800,
  /** Bytes of a line of an aws-chunked body: the head of a chunk, a header of its trailer. A body with a longer one is refused. */
  chunkLineBytesMax: 1_024,
  /** Bytes of names and values of `x-amz-meta-*` in an S3 request, as S3 has it. More are refused with `MetadataTooLarge`. */
  s3MetadataBytesMax: 2_048,
  /** Bytes of the XML body of an S3 request. A larger one is refused with `MalformedXML`. */
  xmlBytesMax: 2_097_152,
  /** Mails that the development page shows. Older ones are left out. */
  mailsShownMax: 50,
} as const
