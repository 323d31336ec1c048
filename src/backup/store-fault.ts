/** Faults of a store as one sentence for the operator: which store, what it says, and what to do. */

import { S3ServiceException } from '@aws-sdk/client-s3'

/** A store is away, full, or refuses. */
export class StoreFault extends Error {
  constructor(message: string, cause: unknown) {
    super(message, { cause })
    this.name = 'StoreFault'
  }
}

/** The repository has no room. */
export const fullRepository = (address: string, cause: unknown): StoreFault =>
  new StoreFault(
    `The disk of the repository ${address} is full. Free space there, or remove old backups with \`tenon backup prune\`.`,
    cause,
  )

/** How S3 stores say that they, or the account, have no room. */
const FULL = /Quota|StorageFull|Insufficient/
export const isFull = (error: unknown): boolean => {
  const { name, code, $metadata } = error as { name?: string; code?: string } & Partial<S3ServiceException>
  return FULL.test(name ?? '') || $metadata?.httpStatusCode === 507 || code === 'ENOSPC' || code === 'EDQUOT'
}

/**
 * @param place begins the sentence, such as `The object store`
 * @returns the error itself if it is not of a store, or names its store already
 */
export function storeFault(place: string, error: unknown): unknown {
  if (error instanceof StoreFault) return error
  if (error instanceof S3ServiceException) {
    const { name, $metadata, message } = error
    const status = $metadata.httpStatusCode ?? 0
    if (name === 'NoSuchBucket')
      return new StoreFault(`${place} has no such bucket. Create it, or set another one.`, error)
    if (status === 401 || status === 403)
      return new StoreFault(`${place} refuses the credentials (${name}). Set those that may use it.`, error)
    return new StoreFault(`${place} fails (${name}, ${status}: ${message}). Run the command again.`, error)
  }
  const reason = reasonOf(error)
  return reason === undefined
    ? error
    : new StoreFault(`${place} does not answer (${reason}). Run the command again when it does.`, error)
}

/** Of errors of connections, which may be several at once: one for each address of a name. */
function reasonOf(error: unknown): string | undefined {
  const { code, errors, name, cause } = error as NodeJS.ErrnoException & { errors?: readonly unknown[] }
  const found = errors?.map(reasonOf).find((one) => one !== undefined)
  if (found !== undefined) return found
  if (typeof code === 'string' && NETWORK.test(code)) return code
  if (name === 'TimeoutError') return 'it is late'
  if (error instanceof Error && error.message === 'aborted') return 'the connection was closed'
  return cause === undefined ? undefined : reasonOf(cause)
}

const NETWORK = /^(ECONN|ENOTFOUND|EAI_|EHOST|ENET|EPIPE|ETIMEDOUT|ERR_STREAM_PREMATURE_CLOSE|CERT_|ERR_TLS)/
