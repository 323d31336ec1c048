/** Knows where the flows of a workspace are, and reads files from where the caller stands. */

import { readFile } from 'node:fs/promises'
import type { ApiClient } from '../client.ts'
import { callerPath, need, operatorClient, readSettings } from '../settings.ts'

interface Place {
  readonly client: ApiClient
  readonly base: string
}

/** @throws Error where neither an option nor a setting names the workspace */
export async function place(workspace: string | undefined): Promise<Place> {
  const settings = await readSettings()
  const ws = workspace ?? need(settings, 'TENON_WORKSPACE_ID')
  return { client: await operatorClient(settings, ws), base: `/v1/flows/workspaces/${ws}` }
}

export const read = (file: string): Promise<string> => readFile(callerPath(file), 'utf8')
