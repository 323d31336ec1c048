/** Prints plans and results of projects, for people and as JSON. */

import { paint, visible } from '../terminal.ts'
import { printJson, printLine } from '../verb.ts'
import type { Change, Written } from './kinds/kind.ts'
import type { Place } from './place.ts'
import type { Plan } from './plan.ts'

const MARKS = { create: ['+', 'green'], change: ['~', 'yellow'], delete: ['-', 'red'] } as const

/** Servers that do not know environments have workspaces of customers, too. */
export const environmentOf = ({ workspace }: Place): string => workspace.environment ?? 'production'

export function printPlace(place: Place): void {
  const { targetName, workspace, url } = place
  printLine(
    visible(
      `Target ${targetName}: workspace ${workspace.slug} (${workspace.id}), ${environmentOf(place)}, ${url}`,
    ),
  )
}

export function printPlan({ changes, extras, pruned, same }: Plan): void {
  for (const change of changes) printChange(change)
  const others = extras.filter(
    (extra) => !pruned.some(({ kind, id }) => kind === extra.kind && id === extra.id),
  )
  for (const { kind, name, isMade } of others)
    printLine(visible(`  ${kind}/${name} is only in the workspace${isMade ? ': --prune deletes it' : ''}`))
  const counted = changes.length === 1 ? '1 change' : `${changes.length} changes`
  printLine(changes.length === 0 ? `No changes, ${same} the same.` : `${counted}, ${same} the same.`)
}

function printChange({ kind, name, action, differences }: Change): void {
  const [mark, style] = MARKS[action]
  const lines = differences.map(({ member, detail, isLossy }) => {
    const text = visible([member, detail].filter(Boolean).join(': '))
    return isLossy ? `${text} ${paint('red', 'lost for ever', process.stdout)}` : text
  })
  const [first = '', ...more] = lines
  printLine(`${paint(style, mark, process.stdout)} ${visible(`${kind}/${name}`)}  ${first}`)
  for (const line of more) printLine(`    ${line}`)
}

export function printWritten({ kind, name, result = '', warnings }: Written): void {
  printLine(visible(`${kind}/${name} ${result}`.trimEnd()))
  for (const warning of warnings) process.stderr.write(`${visible(`warning: ${kind}/${name}: ${warning}`)}\n`)
}

export const printPlanAsJson = (place: Place, { changes, extras, same }: Plan): number =>
  printJson({
    target: place.targetName,
    workspace: { id: place.workspace.id, slug: place.workspace.slug },
    environment: environmentOf(place),
    changes: changes.map(({ differences, ...change }) => ({
      ...change,
      differences: differences.map(({ isLossy, isBlocked: _, ...one }) => ({
        ...one,
        lossy: isLossy === true,
      })),
    })),
    only_in_workspace: extras.map(({ kind, name, id, isMade }) => ({
      kind,
      name,
      id,
      made_by_project: isMade,
    })),
    same,
  })
