/** All workflows and schedules of a tenant or a workspace, for its purge. */

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

/** @typeParam T as callers of the server wrap it: with a deadline and its problems */
type Call = <T>(work: () => Promise<T>) => Promise<T>

export class OwnedWork {
  readonly #client: Client
  readonly #call: Call
  readonly #query: string
  readonly #except: string

  /**
   * @param ref of a tenant as a whole: with the work of all of its workspaces
   * @param except the workflow that asks
   */
  constructor({ tenantId, workspaceId }: TenantRef, client: Client, call: Call, except: string) {
    this.#client = client
    this.#call = call
    const ofWorkspace = workspaceId === '-' ? '' : ` AND WorkspaceId = '${workspaceId}'`
    this.#query = `TenantId = '${tenantId}'${ofWorkspace}`
    this.#except = except
  }

  async count(): Promise<WorkCounts> {
    const [workflows, schedules] = [await this.#workflows(), await this.#schedules()]
    return { workflows: workflows.length, schedules: schedules.length }
  }

  /**
   * Deletes some schedules and workflows, open ones too, with their histories.
   * @returns false if the index shows none any more
   */
  async removeSome(): Promise<boolean> {
    const schedules = await this.#schedules()
    for (const id of schedules)
      await this.#call(() =>
        unlessThrown(ScheduleNotFoundError, this.#client.schedule.getHandle(id).delete()),
      )
    const workflows = await this.#workflows()
    for (const workflowExecution of workflows) await this.#call(() => this.#delete(workflowExecution))
    return schedules.length + workflows.length > 0
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
    const query = `${this.#query} AND WorkflowId != '${this.#except}'`
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
