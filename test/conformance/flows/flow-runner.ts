/** Runs flows in a workspace of any platform, for tests that do so on several. */

import { expect } from 'vitest'
import { call, eventually, type Reply, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import type { Running } from '../../support/stack/start.ts'

export class FlowRunner {
  readonly workspace: TestWorkspace
  readonly at: Running

  constructor(workspace: TestWorkspace, at: Running) {
    this.workspace = workspace
    this.at = at
  }

  /** Of the operator of the workspace. */
  call(method: string, path: string, body?: object): Promise<Reply> {
    return call(method, path, { at: this.at, as: this.workspace.operator, ...(body && { body }) })
  }

  async publish(name: string, source: string): Promise<void> {
    const drafted = await this.call('POST', `${this.workspace.flows}/definitions`, { name, source })
    expect(drafted.body.diagnostics, source).toEqual([])
    const published = await this.call('POST', `${this.workspace.flows}/definitions/${name}/versions`, {})
    expect(published.status, JSON.stringify(published.body)).toBe(201)
  }

  /** Starts a published flow. @returns the execution as of its start */
  async start(name: string, input: unknown) {
    const run = await this.call('POST', `${this.workspace.flows}/definitions/${name}/executions`, { input })
    expect(run.status, JSON.stringify(run.body)).toBe(201)
    return run.body
  }

  /** The execution with its steps after it has ended. */
  ended(id: string, ms = 60_000) {
    return eventually(async () => {
      const { body } = await this.call('GET', `${this.workspace.flows}/executions/${id}`)
      return body.ended_at ? body : undefined
    }, ms)
  }

  async documents(collection: string) {
    const path = `/v1/collections/${collection}/documents`
    return (await call('GET', path, { at: this.at, as: this.workspace.service })).body.data
  }

  /** Sends a command to an execution as soon as it waits. */
  async command(id: string, verb: string, body: object): Promise<void> {
    await eventually(async () => {
      const { body: run } = await this.call('GET', `${this.workspace.flows}/executions/${id}`)
      if (run.status !== 'waiting') return undefined
      const { status } = await this.call('POST', `${this.workspace.flows}/executions/${id}/${verb}`, body)
      return status < 300 ? true : undefined
    }, 60_000)
  }
}
