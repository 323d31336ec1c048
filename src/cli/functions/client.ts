/** Finds a function of a workspace by its name. */

import type { ApiClient } from '../client.ts'
import { workspaceClient } from '../settings.ts'
import type { WorkspaceOption } from '../verb.ts'

/**
 * A client of the operator, and the path of a function, which operators address by its id.
 * @param name or id
 * @throws Error if the workspace has no such function
 */
export async function functionClient(
  name: string,
  { workspace }: WorkspaceOption,
): Promise<{ client: ApiClient; path: string }> {
  const { client, workspace_id } = await workspaceClient(workspace)
  const functions = await client.list<{ id: string; name: string }>(
    `/v1/functions?workspace_id=${workspace_id}`,
  )
  const found = functions.find((one) => one.name === name || one.id === name)
  if (found === undefined)
    throw new Error(`The workspace has no function ${name}. List its functions with \`tenon fn list\`.`)
  return { client, path: `/v1/functions/${found.id}` }
}
