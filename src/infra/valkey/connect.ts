/** Opens connections to Valkey, as the settings of the installation say: to one server, or to the one that Sentinels name. */

import { Redis, type RedisOptions } from 'ioredis'

export interface ValkeyAddress {
  /** With Sentinels, the host is the name of what they watch. */
  readonly url: string
  /** The authorities that are trusted, and the certificate of the platform with its key, as PEM. */
  readonly tls?: { readonly ca?: string; readonly cert?: string; readonly key?: string }
  readonly sentinels?: readonly { readonly host: string; readonly port: number }[]
  readonly sentinelPassword?: string
}

const SENTINEL_MS = 2_000
const SENTINEL_RETRY_MS = 1_000

export type ValkeyOptions = Omit<RedisOptions, 'replyMapping'>

/** @param at a text is a URL that needs no other settings */
export function connectToValkey(at: ValkeyAddress | string, options: ValkeyOptions): Redis {
  const address: ValkeyAddress = typeof at === 'string' ? { url: at } : at
  const { url, tls, sentinels } = address
  const usual = { ...options, ...(tls && { tls }) }
  return sentinels === undefined
    ? new Redis(url, usual)
    : new Redis(url, { ...usual, ...throughSentinels(address, options) })
}

function throughSentinels(
  { url, tls, sentinels = [], sentinelPassword }: ValkeyAddress,
  { retryStrategy }: ValkeyOptions,
): ValkeyOptions {
  return {
    sentinels: [...sentinels],
    name: new URL(url).hostname,
    // A primary that hangs closes no connection.
    failoverDetector: true,
    sentinelCommandTimeout: SENTINEL_MS,
    sentinelRetryStrategy: retryStrategy ?? ((times) => Math.min(times * 50, SENTINEL_RETRY_MS)),
    ...(sentinelPassword !== undefined && { sentinelPassword }),
    ...(tls && { enableTLSForSentinelMode: true, sentinelTLS: tls }),
  }
}

/** True if another server may take the place of the primary: what no replica has, is then lost. */
export const mayFailOver = ({ options }: Redis): boolean => Boolean(options.sentinels)
