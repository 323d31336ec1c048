/** The version of tus, the protocol of resumable uploads, and its extensions that the platform supports. */

export const TUS_VERSION = '1.0.0'

/** Headers that tell a client what is supported, in the answer to `OPTIONS`. */
export const TUS_CAPABILITIES = {
  'tus-version': TUS_VERSION,
  'tus-extension': 'creation,creation-with-upload,creation-defer-length,expiration,checksum,termination',
  'tus-checksum-algorithm': 'md5,sha1,sha256',
} as const
