/** Groups of tools: named and ordered by the curation, shown to clients and on the consent page. */

import Type, { type Static } from 'typebox'
import { CORE_LIMITS } from '../../../core/limits.ts'
import type { InputError } from '../../../core/problem.ts'
import { MCP_LIMITS } from '../limits.ts'
import { findHidden, type Tool } from '../tool.ts'
import { TOOL_NAME_PATTERN } from '../tool-name.ts'

const GROUP = {
  name: Type.String({ pattern: TOOL_NAME_PATTERN }),
  title: Type.String({ minLength: 1, maxLength: CORE_LIMITS.nameCharsMax }),
  description: Type.Optional(Type.String({ minLength: 1, maxLength: MCP_LIMITS.descriptionCharsMax })),
}

export const Groups = Type.Array(
  Type.Object(
    {
      ...GROUP,
      tools: Type.Array(Type.String({ maxLength: 200 }), {
        maxItems: MCP_LIMITS.toolsMax,
        description: 'Candidates, or names of tools. A tool is in one group at most.',
      }),
    },
    { additionalProperties: false },
  ),
  { maxItems: MCP_LIMITS.groupsMax, description: 'Groups of tools, in the order in which they are shown.' },
)
type Groups = Static<typeof Groups>

/** A group of a published version; its tools name it. */
export type Group = Omit<Groups[number], 'tools'>

export const groupsOf = (groups: Groups): Group[] => groups.map(({ tools: _tools, ...group }) => group)

/** @param tools of the draft @returns the same tools, each with the name of its group */
export function groupTools(groups: Groups, tools: readonly Tool[]): Tool[] {
  const named = new Map(groups.flatMap(({ name, tools: members }) => members.map((one) => [one, name])))
  return tools.map((tool) => {
    const group = named.get(tool.name) ?? named.get(tool.candidate)
    return group === undefined ? tool : { ...tool, group }
  })
}

/** @param tools of the draft */
export function groupFaults(groups: Groups, tools: readonly Tool[]): (InputError | undefined)[] {
  const names = groups.map(({ name }) => name.toLowerCase())
  const grouped = new Set<Tool>()
  return groups.flatMap(({ name, title, description, tools: members }, index) => {
    const at = `/groups/${index}`
    return [
      names.indexOf(name.toLowerCase()) < index
        ? fault(`${at}/name`, 'is the name of another group')
        : undefined,
      findHidden(title, `${at}/title`),
      findHidden(description ?? '', `${at}/description`),
      ...members.map((member, place) => {
        const tool = tools.find((one) => one.name === member || one.candidate === member)
        if (tool === undefined)
          return fault(`${at}/tools/${place}`, 'is not an enabled tool of this curation')
        if (grouped.has(tool)) return fault(`${at}/tools/${place}`, 'is in a group already')
        grouped.add(tool)
        return undefined
      }),
    ]
  })
}

const fault = (pointer: string, detail: string): InputError => ({
  in: 'body',
  name: 'groups',
  pointer,
  detail,
})
