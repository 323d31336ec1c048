/** Options that all clients of the object store share. */

import type { S3ClientConfig } from '@aws-sdk/client-s3'
import type { Config } from '../config.ts'
import { INFRA_LIMITS } from '../limits.ts'

/** By default the SDK warns on the console of each upload whose client has gone, which is no error. Real ones are thrown. */
const QUIET = { trace: () => {}, debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }

/**
 * Options of all S3 clients. Checksums only where required, since they are trailers that some stores reject.
 * @param limits of a request
 */
export function storeOf(config: Config, limits: Partial<TimeLimits> = {}) {
  return {
    endpoint: config.S3_ENDPOINT,
    region: config.S3_REGION,
    forcePathStyle: config.S3_PATH_STYLE,
    disableS3ExpressSessionAuth: true,
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
    maxAttempts: 2,
    logger: QUIET,
    requestHandler: requestsWith(config, limits),
  } as const satisfies S3ClientConfig
}

/** How requests are made: within these limits, to a store that these authorities certify. */
export const requestsWith = ({ S3_CA: ca }: Config, limits: Partial<TimeLimits>) => ({
  ...limits,
  ...(ca !== undefined && { httpsAgent: { keepAlive: true, ca } }),
})

type TimeLimits = ReturnType<typeof timeoutsOf>

/**
 * Time limits of requests whose body is in memory, for a store that accepts connections and does not answer.
 * @param answerMs until the head of the response, and between two pieces of its body
 */
export const timeoutsOf = (answerMs: number) => ({
  connectionTimeout: INFRA_LIMITS.storeConnectMs,
  socketTimeout: answerMs,
  requestTimeout: answerMs,
  // Without it, the SDK logs a warning and waits on.
  throwOnRequestTimeout: true,
})

/** The platform's own identity, which creates buckets and opens sessions. */
export const rootOf = (config: Config) => ({
  accessKeyId: config.S3_ACCESS_KEY_ID,
  secretAccessKey: config.S3_SECRET_ACCESS_KEY,
})
