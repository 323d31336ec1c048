/** `tenon project init|pull|diff|apply|dev`: a workspace as files. */

import { mkdir } from 'node:fs/promises'
import { createInterface } from 'node:readline/promises'
import type { Command } from 'commander'
import { stringify } from 'yaml'
import { TenonError } from '../../../client/src/index.ts'
import { callerPath, need, operatorOperations, readSettings } from '../settings.ts'
import { visible } from '../terminal.ts'
import { addVerb, type Flag, printLine, WORKSPACE, type WorkspaceOption } from '../verb.ts'
import { dev } from './dev.ts'
import { ProjectFolder } from './folder.ts'
import { MANIFEST } from './manifest.ts'
import { findWorkspace, openPlace, type Place, type ProjectOptions } from './place.ts'
import { carryOut, lossyOf, type Plan, planProject, pullProject, requireApplicable } from './plan.ts'
import { environmentOf, printPlace, printPlan, printPlanAsJson, printWritten } from './print.ts'

const TARGET: Flag = [
  '--target <name>',
  'Target of tenon.yaml. Default: the only one, or the one named development.',
]
const FOLDER: Flag = ['--folder <path>', 'Folder of the project. Default: this one.']
const PRUNE: Flag = [
  '--prune',
  'Delete resources that the project has created and no longer contains; never documents, objects or secrets.',
]

/** Writes a project for the workspace of the settings, with all that it has. */
async function init(path: string, { workspace: named }: WorkspaceOption): Promise<number> {
  const settings = await readSettings()
  const client = await operatorOperations()
  const workspace = await findWorkspace(client, named ?? need(settings, 'TENON_WORKSPACE_ID'))
  await mkdir(callerPath(path), { recursive: true })
  const folder = await ProjectFolder.open(callerPath(path))
  if ((await folder.read(MANIFEST)) !== undefined) throw new Error(`${path} has a ${MANIFEST} already.`)
  const isProduction = (workspace.environment ?? 'production') === 'production'
  const target = { url: need(settings, 'TENON_URL'), workspace: workspace.id }
  const targets = { [isProduction ? 'production' : 'development']: target }
  await folder.write(
    MANIFEST,
    `# The workspace ${visible(workspace.slug)} as files. See \`tenon project --help\`.\n${stringify({ targets })}`,
  )
  printLine(MANIFEST)
  return pull({ folder: path })
}

async function pull(options: ProjectOptions): Promise<number> {
  const { files, notes } = await pullProject(await openPlace(options))
  for (const file of files) printLine(visible(file))
  for (const note of notes) process.stderr.write(`${visible(note)}\n`)
  if (files.length === 0) printLine('No file has changed.')
  return 0
}

interface DiffOptions extends ProjectOptions {
  readonly json?: boolean
  readonly prune?: boolean
}

/** @returns the exit code: 2 if there are changes */
async function diff({ json, prune, ...options }: DiffOptions): Promise<number> {
  const place = await openPlace(options)
  const plan = await planProject(place, { prune: prune === true })
  if (json) printPlanAsJson(place, plan)
  else {
    printPlace(place)
    printPlan(plan)
  }
  return plan.changes.length === 0 ? 0 : 2
}

interface ApplyOptions extends ProjectOptions {
  readonly yes?: string
  readonly prune?: boolean
}

async function apply({ yes, prune, ...options }: ApplyOptions): Promise<number> {
  const place = await openPlace(options)
  const plan = await planProject(place, { prune: prune === true })
  printPlace(place)
  printPlan(plan)
  if (plan.changes.length === 0) return 0
  await requireApplicable(place, plan)
  if (!(await isConfirmed(place, plan, yes))) return 1
  await carryOut(place, plan, printWritten)
  return 0
}

/** @throws Error if nobody can be asked, or another workspace was named */
async function isConfirmed(place: Place, plan: Plan, yes: string | undefined): Promise<boolean> {
  const { slug } = place.workspace
  if (yes === slug) return true
  if (yes !== undefined)
    throw new Error(`Nothing was changed: --yes names ${yes}, and the workspace of the target is ${slug}.`)
  if (!process.stdin.isTTY) throw new Error(`Nothing was changed. Confirm the plan with --yes=${slug}.`)
  const lossy = lossyOf(plan).length > 0
  const question = lossy
    ? `Something is lost for ever. Write the name of the workspace, ${slug}, to go on: `
    : `Apply this to ${slug} (${environmentOf(place)})? [y/N] `
  const terminal = createInterface({ input: process.stdin, output: process.stderr })
  const answer = (await terminal.question(question)).trim()
  terminal.close()
  return lossy ? answer === slug : /^y(es)?$/i.test(answer)
}

/** With a line for each fault that an error of the API names, and the id of its request. */
const explaining =
  <A extends unknown[]>(work: (...args: A) => Promise<number>) =>
  (...args: A): Promise<number> =>
    work(...args).catch((error: unknown) => {
      if (!(error instanceof TenonError)) throw error
      const faults = error.errors
        .map(({ pointer, name, detail }) => `${pointer || name} ${detail}`)
        .filter((fault) => !error.message.includes(fault))
      const request = error.requestId && `request ${error.requestId}`
      throw new Error([error.message, ...faults, request].filter(Boolean).join('\n  '), { cause: error })
    })

export function projectVerbs(program: Command): void {
  const project = program
    .command('project')
    .description('Manage a workspace as files, and apply them to others.')
  addVerb(project, 'init <folder>', 'Write a project with all that a workspace has.', explaining(init), [
    WORKSPACE,
  ])
  addVerb(
    project,
    'pull',
    'Write what the workspace has into the files. Comments and order stay.',
    explaining(pull),
    [TARGET, FOLDER],
  )
  addVerb(
    project,
    'diff',
    'Print what applying the project would change. Exit code 0: nothing; 2: something; 1: an error.',
    explaining(diff),
    [TARGET, FOLDER, PRUNE, ['--json', 'Print one JSON value.']],
  )
  addVerb(
    project,
    'apply',
    'Print what applying the project changes, ask, and change it.',
    explaining(apply),
    [
      TARGET,
      FOLDER,
      PRUNE,
      [
        '--yes <slug>',
        'Slug of the workspace. It confirms the plan without a question, also steps that lose data.',
      ],
    ],
  )
  addVerb(
    project,
    'dev',
    'Update a workspace for development at each saved change, and write the types of its collections.',
    explaining(dev),
    [TARGET, FOLDER],
  )
}
