/** `tenon project`: what a workspace has as files, and files as what a workspace has. */

import { expect, test } from 'vitest'
import {
  BOOKINGS,
  manifest,
  projectFolder,
  projectIn,
  readFiles,
  slugOf,
  writeFiles,
} from '../../support/fixtures/projects.ts'
import { call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

test('a project is applied: each kind is there, the difference is empty, and pull changes no byte', async () => {
  const workspace = await createTestWorkspace()
  const folder = await projectFolder({ ...BOOKINGS, ...manifest({ development: workspace }) })
  const project = projectIn(folder, workspace)
  const before = await project('diff')
  expect([before.code, before.stderr]).toEqual([2, ''])
  const applied = await project('apply', `--yes=${await slugOf(workspace)}`)
  expect(applied, applied.stderr).toMatchObject({ code: 0 })
  const same = await project('diff')
  expect(same).toMatchObject({ code: 0, stdout: expect.stringContaining('No changes, 7 the same.') })
  const files = await readFiles(folder)
  expect(await project('pull')).toMatchObject({ code: 0, stdout: 'No file has changed.\n' })
  expect(await readFiles(folder)).toEqual(files)
  const again = await project('apply', `--yes=${await slugOf(workspace)}`)
  expect(again).toMatchObject({ code: 0, stdout: expect.stringContaining('No changes') })
  const answer = await call('POST', '/v1/functions/price/invoke', {
    ...{ as: workspace.service, body: { hours: 2 } },
  })
  expect(answer.body).toEqual({ price: '40 €' })
})

test('init: a project of a workspace has no difference, and makes another workspace the same', async () => {
  const [first, second] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const source = await projectFolder({ ...BOOKINGS, ...manifest({ development: first }) })
  const applied = await projectIn(source, first)('apply', `--yes=${await slugOf(first)}`)
  expect(applied, applied.stderr).toMatchObject({ code: 0 })
  const folder = await projectFolder({})
  const project = projectIn(folder, first)
  const made = await project('init', 'copy')
  expect(made, made.stderr).toMatchObject({ code: 0, stdout: expect.stringMatching(/^tenon\.yaml\n/) })
  const files = await readFiles(folder)
  expect(Object.keys(files).map((name) => name.slice('copy/'.length))).toEqual([
    ...['clients.yaml', 'collections/bookings.yaml', 'collections/courts.yaml', 'flows/remind.yaml'],
    ...['functions/price.ts', 'functions/price.yaml', 'mcp/club.yaml', 'settings.yaml', 'tenon.yaml'],
  ])
  expect(await project('diff', '--folder', 'copy')).toMatchObject({ code: 0 })
  await writeFiles(`${folder}/copy`, manifest({ second }))
  const other = projectIn(`${folder}/copy`, second)
  const promoted = await other('apply', `--yes=${await slugOf(second)}`)
  expect(promoted, promoted.stderr).toMatchObject({ code: 0 })
  expect(await other('diff')).toMatchObject({ code: 0 })
})
