/** The bounds of secrets of flows, and of what is looked through for them. */

export const SECRET_LIMITS = {
  flowSecretsMax: 200,
  /** Of the value as JSON. */
  flowSecretBytesMax: 16_384,
  /** Texts in one value that is an object or a list, and how deep they lie. */
  flowSecretTextsMax: 16,
  flowSecretDepthMax: 4,
  /** A shorter text cannot be told from other texts in an answer. */
  flowSecretCharsMin: 8,
} as const
