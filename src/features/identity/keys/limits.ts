/** Limits of API keys. */

export const API_KEY_LIMITS = {
  /** Scopes of a key. More are refused with `validation_failed`. */
  scopesMax: 50,
  /** Requests per minute that a key of its own rate may have. More are refused with `validation_failed`. */
  requestsPerMinuteMax: 1_000_000,
  /** Seconds for which a rotated key stays valid, unless the request states others. Then requests with it are refused. */
  graceSecondsDefault: 86_400,
  /** Seconds that such a request may state. More are refused with `validation_failed`. */
  graceSecondsMax: 2_592_000,
  /** Prefixes of a storage key. More are refused with `validation_failed`. */
  prefixesMax: 50,
} as const
