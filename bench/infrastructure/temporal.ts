/** Calls of Temporal's API through a proxy with TLS, against the same proxy without it. */

import { Connection, type ConnectionOptions } from '@temporalio/client'
import { startTemporalGateway } from '../../test/conformance/external/temporal-gateway.ts'
import type { Started } from '../../test/support/stack/start.ts'
import { contest, interleaved, print } from '../measure.ts'

const ROUNDS = 300
const KEY = 'the-key-of-the-benchmark'

export async function temporal({ running }: Started): Promise<void> {
  const address = running.env['TEMPORAL_ADDRESS'] ?? ''
  const gateway = await startTemporalGateway(KEY, address)
  const tls = { serverRootCACertificate: Buffer.from(gateway.authority.certificate) }
  const sides: Readonly<Record<string, ConnectionOptions>> = {
    'a proxy': { address: gateway.plain },
    'a proxy, TLS and a key': { address: gateway.keyed, tls, apiKey: KEY },
    'Temporal itself': { address },
  }
  const connections = await Promise.all(Object.values(sides).map((options) => Connection.connect(options)))
  const works = Object.fromEntries(
    Object.keys(sides).map((name, at) => [
      name,
      () => connections[at]?.workflowService.describeNamespace({ namespace: 'default' }) ?? Promise.reject(),
    ]),
  )
  try {
    const figures = await interleaved(ROUNDS, works)
    const rates = await contest({ rounds: 7, lanes: 16, ms: 1_000 }, works)
    const [first] = Object.keys(sides)
    print('\none call', 'p50 ms', '×', 'per s, 16 at once', '×')
    for (const name of Object.keys(sides)) {
      const [p50, base] = [figures[name]?.p50Ms ?? 0, figures[first ?? '']?.p50Ms ?? 1]
      const [perS, baseRate] = [rates[name]?.perS ?? 0, rates[first ?? '']?.perS ?? 1]
      print(name, p50, p50 / base, perS, perS / baseRate)
    }
  } finally {
    await Promise.all(connections.map((connection) => connection.close()))
    await gateway.close()
  }
}
