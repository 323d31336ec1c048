/** Writers of documents in the kill drill, the ledger of what was acknowledged to them, and its comparison with what is stored. */

import { setTimeout as pause } from 'node:timers/promises'
import type { Random } from '../../support/random.ts'
import type { Drill } from './drill.ts'

interface Kept {
  readonly code: string
  value: number
  version: number
}

/** What the replies say is in a collection. */
export class Ledger {
  readonly collection: string
  readonly isUnique: boolean
  readonly documents = new Map<string, Kept>()
  /** The last version of each deleted document. */
  readonly deleted = new Map<string, number>()
  counterId = ''
  increments = 0

  constructor(collection: string, isUnique: boolean) {
    this.collection = collection
    this.isUnique = isUnique
  }

  get path(): string {
    return `/v1/collections/${this.collection}`
  }
}

/** Declares one collection with a unique field, and makes a counter in it and in an undeclared one. */
export async function openLedgers(drill: Drill): Promise<Ledger[]> {
  const { workspaceId: workspace_id, operator: as } = drill.workspace
  const schema = { type: 'object', properties: { code: { type: 'string' }, value: { type: 'integer' } } }
  const declaration = {
    workspace_id,
    collection: 'declared',
    store: 'relational',
    schema,
    mode: 'enforce',
    unique: [['code']],
  }
  drill.expect(await drill.answered('POST', '/v1/schemas', { as, body: declaration }), [201], 'declare')
  const ledgers = [new Ledger('declared', true), new Ledger('undeclared', false)]
  for (const ledger of ledgers) {
    const body = { code: 'counter', value: 0 }
    const made = await drill.answered('POST', `${ledger.path}/documents`, { body })
    drill.expect(made, [201], 'create the counter')
    ledger.counterId = made.body.id
  }
  return ledgers
}

type Step = (writer: Writer) => Promise<void>

/** Changes its own documents, and a counter that all writers of the collection share, until the drill is over. */
export class Writer {
  readonly #drill: Drill
  readonly #ledger: Ledger
  readonly #name: string
  readonly #random: Random
  readonly #pauseMs: number
  readonly #own: string[] = []
  #steps = 0

  /** @param pauseMs after each change */
  constructor(drill: Drill, ledger: Ledger, n: number, pauseMs = 0) {
    this.#drill = drill
    this.#ledger = ledger
    this.#name = `w${n}`
    this.#random = drill.random(n)
    this.#pauseMs = pauseMs
  }

  async run(): Promise<void> {
    while (!this.#drill.isOver) {
      this.#steps += 1
      await STEPS[this.#random(STEPS.length)]?.(this)
      if (this.#pauseMs > 0) await pause(this.#pauseMs)
    }
  }

  get #code(): string {
    return `${this.#name}-${this.#steps}`
  }

  #send(method: string, path: string, body?: unknown, headers = {}) {
    const key = method === 'DELETE' ? {} : { key: `${this.#code}-${this.#ledger.collection}` }
    return this.#drill.answered(method, `${this.#ledger.path}${path}`, {
      ...key,
      headers,
      ...(body !== undefined && { body }),
    })
  }

  #expect(reply: Awaited<ReturnType<Drill['answered']>>, statuses: number[], what: string): boolean {
    const isExpected = this.#drill.expect(
      reply,
      statuses,
      `${this.#code} in ${this.#ledger.collection}, ${what}`,
    )
    if (isExpected) this.#drill.count(`${what}: ${reply.status}`)
    return isExpected
  }

  #keep(id: string, code: string): void {
    this.#ledger.documents.set(id, { code, value: 0, version: 1 })
    this.#own.push(id)
  }

  /** One of its documents, undefined if it has none. */
  #pick(): { id: string; kept: Kept } | undefined {
    const id = this.#own[this.#random(Math.max(1, this.#own.length))]
    const kept = id === undefined ? undefined : this.#ledger.documents.get(id)
    return id === undefined || kept === undefined ? undefined : { id, kept }
  }

  async create(): Promise<void> {
    const code = this.#code
    const reply = await this.#send('POST', '/documents', { code, value: 0 })
    if (this.#expect(reply, [201], 'create')) this.#keep(reply.body.id, code)
  }

  /** Under an id of its own, once: a repetition would be refused without its key. */
  async createChosen(): Promise<void> {
    const [id, code] = [crypto.randomUUID(), this.#code]
    const reply = await this.#send('PUT', `/documents/${id}`, { code, value: 0 }, { 'if-none-match': '*' })
    if (this.#expect(reply, [201], 'create under a chosen id')) this.#keep(id, code)
  }

  async applyOperators(): Promise<void> {
    const picked = this.#pick()
    if (picked === undefined) return this.create()
    const headers = { 'content-type': 'application/vnd.tenon.ops+json' }
    const reply = await this.#send('PATCH', `/documents/${picked.id}`, { inc: { value: 2 } }, headers)
    if (!this.#expect(reply, [200], 'operators')) return
    picked.kept.value += 2
    picked.kept.version += 1
  }

  /** Refused: the code is taken. */
  async createTwin(): Promise<void> {
    const picked = this.#pick()
    if (picked === undefined || !this.#ledger.isUnique) return this.create()
    this.#expect(
      await this.#send('POST', '/documents', { code: picked.kept.code, value: 0 }),
      [409],
      'create a twin',
    )
  }

  async patch(): Promise<void> {
    const picked = this.#pick()
    if (picked === undefined) return this.create()
    const { id, kept } = picked
    const value = this.#steps
    const reply = await this.#send(
      'PATCH',
      `/documents/${id}`,
      { value },
      { 'if-match': `"v${kept.version}"` },
    )
    if (!this.#expect(reply, [200], 'patch')) return
    kept.value = value
    kept.version += 1
  }

  /** Refused: the version is another. */
  async patchStale(): Promise<void> {
    const picked = this.#pick()
    if (picked === undefined) return this.create()
    const headers = { 'if-match': `"v${picked.kept.version + 5}"` }
    this.#expect(
      await this.#send('PATCH', `/documents/${picked.id}`, { value: -1 }, headers),
      [412],
      'patch a stale version',
    )
  }

  async increment(): Promise<void> {
    const ops = [{ op: 'increment', id: this.#ledger.counterId, field: 'value', by: 1 }]
    if (this.#expect(await this.#send('POST', '/batch', { ops }), [200], 'increment'))
      this.#ledger.increments += 1
  }

  async createAndIncrement(): Promise<void> {
    const code = this.#code
    const ops = [
      { op: 'create', data: { code, value: 0 } },
      { op: 'increment', id: this.#ledger.counterId, field: 'value', by: 1 },
    ]
    const reply = await this.#send('POST', '/batch', { ops })
    if (!this.#expect(reply, [200], 'batch')) return
    this.#ledger.increments += 1
    this.#keep(reply.body.results[0].id, code)
  }

  /** Refused as a whole: the version of the second is another. */
  async batchStale(): Promise<void> {
    const picked = this.#pick()
    if (picked === undefined) return this.create()
    const ops = [
      { op: 'create', data: { code: this.#code, value: -1 } },
      { op: 'increment', id: this.#ledger.counterId, field: 'value', by: 1 },
      { op: 'patch', id: picked.id, data: { value: -1 }, if_version: picked.kept.version + 5 },
    ]
    this.#expect(await this.#send('POST', '/batch', { ops }), [409, 412], 'batch with a stale version')
  }

  async remove(): Promise<void> {
    const picked = this.#pick()
    if (picked === undefined) return this.create()
    const reply = await this.#send('DELETE', `/documents/${picked.id}`)
    // A repetition does not find what the first attempt deleted.
    if (!this.#expect(reply, reply.attempts > 1 ? [200, 204, 404] : [200, 204], 'delete')) return
    this.#ledger.documents.delete(picked.id)
    this.#ledger.deleted.set(picked.id, picked.kept.version)
    this.#own.splice(this.#own.indexOf(picked.id), 1)
  }
}

const STEPS: readonly Step[] = [
  (writer) => writer.create(),
  (writer) => writer.create(),
  (writer) => writer.patch(),
  (writer) => writer.patch(),
  (writer) => writer.increment(),
  (writer) => writer.increment(),
  (writer) => writer.createAndIncrement(),
  (writer) => writer.createChosen(),
  (writer) => writer.applyOperators(),
  (writer) => writer.createTwin(),
  (writer) => writer.patchStale(),
  (writer) => writer.batchStale(),
  (writer) => writer.remove(),
]

/** Compares a collection with its ledger: each acknowledged write is there once, and nothing else. */
export async function compareLedger(drill: Drill, ledger: Ledger): Promise<void> {
  const stored = await listAll(drill, `${ledger.path}/documents`)
  const counter = stored.get(ledger.counterId)
  stored.delete(ledger.counterId)
  if (counter?.['value'] !== ledger.increments || counter?.['_version'] !== ledger.increments + 1)
    drill.find(
      `${ledger.collection}: ${ledger.increments} increments were acknowledged, the counter is ${JSON.stringify(counter)}`,
      Number(counter?.['value'] ?? 0) < ledger.increments ? 'lost' : 'doubled',
    )
  for (const [id, { code, value, version }] of ledger.documents) {
    const found = stored.get(id)
    stored.delete(id)
    const isSame = found?.['code'] === code && found['value'] === value && found['_version'] === version
    if (!isSame)
      drill.find(
        `${ledger.collection} ${id}: acknowledged ${JSON.stringify({ code, value, version })}, stored ${JSON.stringify(found)}`,
        'lost',
      )
  }
  for (const document of stored.values())
    drill.find(
      `${ledger.collection}: stored, but its creation was not acknowledged: ${JSON.stringify(document)}`,
      'doubled',
    )
  drill.count('documents compared', ledger.documents.size)
}

export async function listAll(drill: Drill, path: string): Promise<Map<string, Record<string, unknown>>> {
  const found = new Map<string, Record<string, unknown>>()
  for (let after: string | null = ''; after !== null; ) {
    const next: string = after && `&page[after]=${after}`
    const { body } = await drill.answered('GET', `${path}?page[size]=200${next}`)
    for (const document of body.data) found.set(document.id, document)
    after = body.page.next
  }
  return found
}
