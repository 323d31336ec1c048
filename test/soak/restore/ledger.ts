/** A ledger of what a client was told: each write with the times of its request and of its acknowledgement. */

import { createHash, randomBytes } from 'node:crypto'
import { expect } from 'vitest'
import { call, eventually, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import type { Running } from '../../support/stack/start.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

interface Write {
  readonly name: string
  readonly kind: 'document' | 'object'
  readonly sha256?: string
  readonly sentMs: number
  /** Undefined: no answer came. */
  ackMs?: number
}

const DOCUMENTS = '/v1/collections/ledger/documents'
const OBJECT_BYTES = 20_000

export class Ledger {
  readonly writes: Write[] = []
  readonly #workspace: TestWorkspace
  #isOver = false

  constructor(workspace: TestWorkspace) {
    this.#workspace = workspace
  }

  /** Writes until {@link stop}, or until nobody answers. */
  async write(at: Running, writer: number): Promise<void> {
    const bucket = await bucketOf(this.#workspace, at)
    for (let n = 0; !this.#isOver; n += 1) {
      const name = `w${writer}-${n}`
      const sent = n % 5 === 0 ? this.#putObject(at, bucket, name) : this.#insert(at, name)
      if (!(await sent)) return
    }
  }

  stop(): void {
    this.#isOver = true
  }

  /** The time of the last acknowledgement. */
  get lastAckMs(): number {
    return Math.max(...this.writes.map(({ ackMs }) => ackMs ?? 0))
  }

  /** Compares what is there with what was acknowledged until a moment. @returns how many writes were compared */
  async compare(at: Running, momentMs: number): Promise<{ before: number; after: number }> {
    const documents = await this.#documents(at)
    const bucket = await bucketOf(this.#workspace, at)
    const wrong: string[] = []
    const counts = { before: 0, after: 0 }
    for (const { name, kind, sha256, sentMs, ackMs } of this.writes) {
      const isThere =
        kind === 'document' ? documents.has(name) : (await this.#digest(at, bucket, name)) === sha256
      if (ackMs !== undefined && ackMs < momentMs) {
        counts.before += 1
        if (!isThere)
          wrong.push(`${kind} ${name} was acknowledged ${momentMs - ackMs} ms before the moment and is gone`)
      } else if (sentMs > momentMs) {
        counts.after += 1
        if (isThere)
          wrong.push(`${kind} ${name} was sent ${sentMs - momentMs} ms after the moment and is there`)
      }
    }
    expect(wrong).toEqual([])
    return counts
  }

  #insert(at: Running, name: string): Promise<boolean> {
    return this.#note({ name, kind: 'document', sentMs: Date.now() }, () =>
      call('POST', DOCUMENTS, { as: this.#workspace.service, body: { name }, at }),
    )
  }

  #putObject(at: Running, bucket: string, name: string): Promise<boolean> {
    const body = randomBytes(OBJECT_BYTES).toString('hex')
    const sha256 = createHash('sha256').update(body).digest('hex')
    return this.#note({ name, kind: 'object', sha256, sentMs: Date.now() }, () =>
      call('PUT', `/v1/objects/${bucket}/${name}`, {
        ...{ as: this.#workspace.service, body, at },
        headers: { 'content-type': 'text/plain' },
      }),
    )
  }

  /** @returns false if nobody answers any more */
  async #note(write: Write, send: () => Promise<{ status: number }>): Promise<boolean> {
    this.writes.push(write)
    try {
      const { status } = await send()
      if (status < 300) write.ackMs = Date.now()
      return true
    } catch {
      return false
    }
  }

  async #documents(at: Running): Promise<Set<string>> {
    const names = new Set<string>()
    let next = ''
    do {
      const { body } = await call(
        'GET',
        `${DOCUMENTS}?page[size]=200${next && `&page[after]=${encodeURIComponent(next)}`}`,
        {
          ...{ as: this.#workspace.service, at },
        },
      )
      for (const { name } of body.data) names.add(name)
      next = body.page.next ?? ''
    } while (next !== '')
    return names
  }

  async #digest(at: Running, bucket: string, name: string): Promise<string | undefined> {
    // A busy platform may answer that a server is away.
    const { status, body } = await eventually(async () => {
      const reply = await call('GET', `/v1/objects/${bucket}/${name}`, { as: this.#workspace.service, at })
      return reply.status < 429 ? reply : undefined
    })
    return status === 200 ? createHash('sha256').update(body).digest('hex') : undefined
  }
}
