/** All workflows and schedules of a tenant or a workspace, for its purge. */

import { setTimeout as pause } from 'node:timers/promises'
import { type Client, ScheduleNotFoundError } from '@temporalio/client'
import type { TenantRef } from '../../core/tenant.ts'
import { isUnknownWork } from './errors.ts'
import { unlessThrown } from './schedules.ts'

/** How many there are. Temporal's index, which knows them, is some moments behind. */
export interface WorkCounts {
  readonly workflows: number
  readonly schedules: number
}

const PAGE = 200
/** Between two looks at the index, and how long one waits for it, in milliseconds. Temporal works at each deletion that is asked for. */
const INDEX = { lookMs: 300, waitMs: 5_000 }

/** @typeParam T as callers of the server wrap it: with a deadline and its problems */
type Call = <T>(work: () => Promise<T>) => Promise<T>

export class OwnedWork {
  readonly #client: Client
  readonly #call: Call
  readonly #query: string
  /** The workflows but that of the caller. */
  readonly #others: string

  /**
   * @param ref of a tenant as a whole: with the work of all of its workspaces
   * @param except the workflow that asks
   */
  constructor({ tenantId, workspaceId }: TenantRef, client: Client, call: Call, except: string) {
    this.#client = client
    this.#call = call
    const ofWorkspace = workspaceId === '-' ? '' : ` AND WorkspaceId = '${workspaceId}'`
    this.#query = `TenantId = '${tenantId}'${ofWorkspace}`
    this.#others = `${this.#query} AND WorkflowId != '${except}'`
  }

  async count(): Promise<WorkCounts> {
    const workflows = await this.#call(() => this.#client.workflow.count(this.#others))
    return { workflows: workflows.count, schedules: (await this.#schedules()).length }
  }

  /**
   * Deletes some schedules and workflows, open ones too, with their histories, and waits a while for the index to show fewer.
   * @returns false if the index shows none any more
   */
  async removeSome(): Promise<boolean> {
    const before = await this.count()
    const schedules = await this.#schedules()
    for (const id of schedules)
      await this.#call(() =>
        unlessThrown(ScheduleNotFoundError, this.#client.schedule.getHandle(id).delete()),
      )
    const workflows = await this.#workflows()
    for (const workflowExecution of workflows) await this.#call(() => this.#delete(workflowExecution))
    if (schedules.length + workflows.length === 0) return false
    await this.#awaitFewer(before)
    return true
  }

  async #awaitFewer(before: WorkCounts): Promise<void> {
    const until = performance.now() + INDEX.waitMs
    do {
      await pause(INDEX.lookMs)
      const { workflows, schedules } = await this.count()
      if (workflows < before.workflows || schedules < before.schedules) return
    } while (performance.now() < until)
  }

  async #delete(workflowExecution: { workflowId: string; runId: string }): Promise<void> {
    const { connection, options } = this.#client
    try {
      await connection.workflowService.deleteWorkflowExecution({
        namespace: options.namespace,
        workflowExecution,
      })
    } catch (error) {
      if (!isUnknownWork(error)) throw error
    }
  }

  #workflows(): Promise<{ workflowId: string; runId: string }[]> {
    const query = this.#others
    return this.#call(async () => {
      const found = []
      for await (const { workflowId, runId } of this.#client.workflow.list({ query, pageSize: PAGE })) {
        found.push({ workflowId, runId })
        if (found.length === PAGE) break
      }
      return found
    })
  }

  #schedules(): Promise<string[]> {
    return this.#call(async () => {
      const found = []
      for await (const { scheduleId } of this.#client.schedule.list({ query: this.#query, pageSize: PAGE })) {
        found.push(scheduleId)
        if (found.length === PAGE) break
      }
      return found
    })
  }
}
