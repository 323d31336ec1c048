/** Connections to other people's servers, kept for a moment for the next request of the same owner. */

import { type Agent, Agent as PlainAgent } from 'node:http'
import { Agent as TlsAgent } from 'node:https'
import type { LookupFunction } from 'node:net'
import { LRUCache } from 'lru-cache'
import { LIMITS } from '../core/limits.ts'

const { idleMs, perServer, ownersMax } = LIMITS.keptConnections

/**
 * What a server leaves behind on a connection meets whoever has it next, so nobody has one of another. Nor is one
 * that leads anywhere taken for one that leads to a public address.
 */
export class Connections {
  /** By owner, protocol and guard. Connections of one that is forgotten are closed when they have been idle for a moment. */
  readonly #agents = new LRUCache<string, Agent>({ max: ownersMax })

  /** @param guard judges the addresses that connections are made to; where absent, any will do */
  agentOf(owner: string, protocol: string, guard: LookupFunction | undefined): Agent {
    const key = `${owner} ${protocol} ${guard === undefined}`
    const agent = this.#agents.get(key) ?? agentFor(protocol)
    this.#agents.set(key, agent)
    return agent
  }
}

function agentFor(protocol: string): Agent {
  const options = { keepAlive: true, timeout: idleMs, maxFreeSockets: perServer, scheduling: 'lifo' } as const
  return protocol === 'https:' ? new TlsAgent(options) : new PlainAgent(options)
}
