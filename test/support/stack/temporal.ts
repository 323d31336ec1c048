/** Connects to Temporal: as the platform does, or without a codec, which sees the stored bytes. */

import { Client, type ClientInterceptors, Connection } from '@temporalio/client'
import { inject } from 'vitest'
import { openPlatform } from '../../../src/app/platform.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { openLog } from '../../../src/infra/log.ts'
import type { Temporal } from '../../../src/infra/temporal/temporal.ts'
import { openInProcessPlatform } from './in-process-platform.ts'
import type { Running } from './start.ts'

/** Starts work as the API does. */
export function openTemporal(at: Running = inject('tenon')): { temporal: Temporal; close(): Promise<void> } {
  const { platform, parts } = openPlatform(parseConfig(at.env), openLog('silent', 'test'))
  return { temporal: parts.temporal, close: () => platform.close() }
}

/** A client that reads the payloads of tenants, as the platform does. */
export async function withReadingClient<T>(
  work: (client: Client) => Promise<T>,
  interceptors: ClientInterceptors = {},
): Promise<T> {
  const { env } = inject('tenon')
  const platform = openInProcessPlatform()
  const connection = await Connection.connect({ address: env['TEMPORAL_ADDRESS'] ?? '' })
  try {
    const dataConverter = { payloadCodecs: [platform.codec] }
    return await work(new Client({ connection, interceptors, dataConverter }))
  } finally {
    await Promise.all([connection.close(), platform.close()])
  }
}

/** A client that reads the stored payloads unchanged. */
export async function withRawClient<T>(
  work: (client: Client) => Promise<T>,
  at: Running = inject('tenon'),
): Promise<T> {
  const connection = await Connection.connect({ address: at.env['TEMPORAL_ADDRESS'] ?? '' })
  try {
    return await work(new Client({ connection }))
  } finally {
    await connection.close()
  }
}
