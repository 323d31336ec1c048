/** Runs of flows in tests: published from a few lines, started, told things, looked at. */

import type { Running } from './start.ts'
import { call as callAt, eventually, type Reply, type Room, unique } from './tenants.ts'

// biome-ignore lint/suspicious/noExplicitAny: tests look into executions of every shape
export type Shown = any

export class Runs {
  readonly #room: Room
  readonly #at: { at?: Running }

  constructor(room: Room, at?: Running) {
    this.#room = room
    this.#at = at === undefined ? {} : { at }
  }

  #call(method: string, path: string, options: Parameters<typeof callAt>[2]): Promise<Reply> {
    return callAt(method, path, { ...options, ...this.#at })
  }

  /** Publishes a flow of these lines of YAML, or another version of one. @returns its name */
  async publish(tasks: string, { more = '', name = unique('f') } = {}): Promise<string> {
    const { flows, operator: as } = this.#room
    const source = `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '1.0.0' }\n${more}do:\n${tasks}`
    const made = await this.#call('POST', `${flows}/definitions`, { as, body: { name, source } })
    const drafted =
      made.status === 409
        ? await this.#call('PUT', `${flows}/definitions/${name}`, { as, body: { source } })
        : made
    if (drafted.body.faults?.length !== 0) throw new Error(JSON.stringify(drafted.body))
    const version = await this.#call('POST', `${flows}/definitions/${name}/versions`, { as, body: {} })
    if (version.status !== 201) throw new Error(JSON.stringify(version.body))
    return name
  }

  /** @returns the execution's id */
  async start(flow: string, body: object = {}, as = this.#room.operator): Promise<string> {
    const { flows } = this.#room
    const run = await this.#call('POST', `${flows}/definitions/${flow}/executions`, { as, body })
    if (run.status !== 201) throw new Error(JSON.stringify(run.body))
    return run.body.id
  }

  send(id: string, command: string, body: object = {}, as = this.#room.operator): Promise<Reply> {
    return this.#call('POST', `${this.#room.flows}/executions/${id}/${command}`, { as, body })
  }

  async read(id: string): Promise<Shown> {
    return (await this.#call('GET', `${this.#room.flows}/executions/${id}`, { as: this.#room.operator })).body
  }

  /** Waits until that is so. */
  until(id: string, isSo: (run: Shown) => boolean): Promise<Shown> {
    return eventually(async () => {
      const run = await this.read(id)
      return isSo(run) ? run : undefined
    })
  }

  shown(id: string, status: string): Promise<Shown> {
    return this.until(id, (run) => run.status === status)
  }

  ended(id: string): Promise<Shown> {
    return this.until(id, (run) => run.ended_at !== null)
  }

  /** How often each was written: what a call of a flow leaves behind. */
  async ledger(collection: string): Promise<string[]> {
    const path = `/v1/collections/${collection}/documents?page[size]=200`
    const { body } = await this.#call('GET', path, { as: this.#room.service })
    return (body.data ?? []).map(({ entry }: { entry: string }) => entry)
  }
}

/** A task that leaves an entry in a collection, in the order of ids. */
export const noting = (entry: string, collection = 'ledger') =>
  `call: collection.create, with: { name: ${collection}, document: { entry: ${entry} } }`
