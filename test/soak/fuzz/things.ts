/**
 * The things of a round that its requests name: one of each kind, those that its requests create, and open executions. Requests that
 * delete or close take a created one each, so that the others find what they name.
 */

import { createSweepResources, type World } from '../../isolation/sweep-rows.ts'
import { limit } from '../../support/fixtures/quotas.ts'
import { call, type TestWorkspace } from '../../support/fixtures/tenants.ts'

type Kind =
  | 'keyId'
  | 'accountId'
  | 'clientId'
  | 'userId'
  | 'schemaId'
  | 'documentId'
  | 'flowId'
  | 'executionId'
  | 'functionId'

/** Operations whose results are kept. */
const CREATES: Readonly<Record<string, Kind>> = {
  'api_key.create': 'keyId',
  'account.create': 'accountId',
  'oauth_client.create': 'clientId',
  'user.create': 'userId',
  'schema.create': 'schemaId',
  'collection.create': 'documentId',
  'flow.create': 'flowId',
  'function.create': 'functionId',
}

/** Operations that take a kept one, if there is one left. */
const TAKES: Readonly<Record<string, Kind>> = {
  'api_key.revoke': 'keyId',
  'api_key.rotate': 'keyId',
  'account.delete': 'accountId',
  'oauth_client.delete': 'clientId',
  'user.delete': 'userId',
  'schema.delete': 'schemaId',
  'collection.delete': 'documentId',
  'flow.delete': 'flowId',
  'function.delete': 'functionId',
  'execution.cancel': 'executionId',
}

/** Operations that use one of the kept, since they would change what others expect of the first. */
const USES: Readonly<Record<string, Kind>> = {
  'flow.update': 'flowId',
  'flow_version.create': 'flowId',
  'execution.signal': 'executionId',
  'execution.approve': 'executionId',
  'execution.retry_step': 'executionId',
  'execution.skip_step': 'executionId',
  'execution.pause': 'executionId',
  'execution.resume': 'executionId',
  'execution.patch_data': 'executionId',
}

const OPEN_EXECUTIONS = 8
const MANY = { mcp_servers: 100 }

export class Things {
  readonly #world: World
  readonly #kept: Map<Kind, string[]>

  private constructor(world: World, open: readonly string[]) {
    this.#world = world
    this.#kept = new Map([['executionId', [...open]]])
  }

  static async create(workspace: TestWorkspace): Promise<Things> {
    const world = await createSweepResources(workspace)
    await limit(workspace, MANY)
    const open = Array.from({ length: OPEN_EXECUTIONS }, async () => {
      const path = `${workspace.flows}/definitions/asks/executions`
      return (await call('POST', path, { as: workspace.operator, body: {} })).body.id as string
    })
    return new Things(world, await Promise.all(open))
  }

  /** What a request of the operation names. */
  worldFor(operation: string, seed: number): World {
    const kind = TAKES[operation] ?? USES[operation]
    const kept = kind === undefined ? [] : (this.#kept.get(kind) ?? [])
    const id = operation in TAKES ? kept.shift() : kept[seed % kept.length]
    return kind === undefined || id === undefined ? this.#world : { ...this.#world, [kind]: id }
  }

  /** Keeps what an accepted request of the operation has created. @param text the response */
  keep(operation: string, text: string): void {
    const kind = CREATES[operation]
    const id = /"(?:client_)?id": ?"(\w+)"/.exec(text)?.[1]
    if (kind === undefined || id === undefined) return
    this.#kept.set(kind, [...(this.#kept.get(kind) ?? []), id])
  }
}
