/** Checks that the help of the CLI, problems, diagnostics, pages and mails stand alone and use the terms of the field. */

import type { Command } from 'commander'
import { expect, test } from 'vitest'
import { DIAGNOSTICS } from '../../flows-dsl/diagnostics/catalogue.ts'
import { FUNCTIONS, KEYS, OTHER_LANGUAGES, VARIABLES } from '../../flows-dsl/diagnostics/remedies.ts'
import { createProgram } from '../../src/cli/program.ts'
import { PROBLEMS } from '../../src/core/problem-catalogue.ts'
import type { ProblemRow } from '../../src/core/problem-row.ts'
import { describeConfig } from '../../src/infra/config.ts'
import {
  beginsUpright,
  beginsWithVerb,
  DESCRIPTION_RULES,
  endsWithPeriod,
  hasNoIdiom,
  hasNoPeriod,
  hasSubject,
  IMPERATIVE_VERBS,
  PROSE_RULES,
  type ProseRule,
  type Text,
  usesArticles,
  usesCommonWords,
  violations,
  words,
} from '../support/prose.ts'
import { sourceTexts } from '../support/source-texts.ts'

/** Verbs of commands, besides those of operations. */
const COMMAND_VERBS = words(`
  Allow Bundle Connect Disable Draw Enable Make Manage Migrate Print Reject Repeat Select Show Subscribe Upload
  Validate Watch`)

const visible = (parent: Command) =>
  parent
    .createHelp()
    .visibleCommands(parent)
    .filter((command) => command.name() !== 'help')

interface HelpTexts {
  readonly commands: readonly Text[]
  readonly options: readonly Text[]
}

function helpOf(command: Command, path: string): HelpTexts {
  const help = command.createHelp()
  const below = visible(command).map((one) => helpOf(one, `${path} ${one.name()}`))
  const options = help.visibleOptions(command).map((option) => ({
    at: `${path} ${option.flags}`,
    text: help.optionDescription(option),
  }))
  return {
    commands: [{ at: path, text: command.description() }, ...below.flatMap(({ commands }) => commands)],
    options: [...options, ...below.flatMap((one) => one.options)],
  }
}

const { commands, options } = helpOf(createProgram(), 'tenon')
const problems = Object.entries<ProblemRow>(PROBLEMS)
const titlesOf = (rows: object): Text[] =>
  Object.entries(rows).map(([code, { title }]) => ({ at: code, text: title as string }))
const hints = problems.flatMap(([at, { help, adminHint }]) =>
  [help, adminHint].flatMap((text) => (text === undefined ? [] : [{ at, text }])),
)
const explanations = Object.entries(DIAGNOSTICS).map(([at, { explanation: text }]) => ({ at, text }))
const remedies = [KEYS, VARIABLES, FUNCTIONS, OTHER_LANGUAGES].flatMap((table) =>
  Object.entries(table).map(([at, text]) => ({ at, text })),
)
const settings = describeConfig().map(({ name: at, description: text }) => ({ at, text }))

/** Text of a page without its tags. */
const untagged = ({ at, text }: Text): Text => ({ at, text: text.replaceAll(/<[^>]*>/g, ' ').trim() })

/** Texts for people, rather than names, CSS, SQL or code. */
const isProse = ({ text }: Text) =>
  /^[`\p{Lu}…].*\p{L} .*\p{L}/su.test(text) && !/[{}]|=>|default-src/.test(text)

const ISSUER = /pages?\.ts$|mails\.ts$|service\.ts$|password-slots\.ts$/
const pages = [
  ...(await sourceTexts('src/features/identity', ISSUER)),
  ...(await sourceTexts('src/api/issuer', /\.ts$/)),
  ...(await sourceTexts('src/api', /^approval-(pages|routes|form)\.ts$/)),
  ...(await sourceTexts('src/features/flows/approvals', /^mail-approvers\.ts$/)),
]
  .map(untagged)
  .filter(isProse)
const details = (await sourceTexts('src', /\.ts$/, ['detail', 'hint', 'adminHint'])).filter(isProse)
const diagnostics = (
  await sourceTexts('flows-dsl', /^(compile|components|json-schema|machine|tasks)\/.*\.ts$/)
).filter(isProse)

/** A sentence begins with its subject, not with a question word or a pronoun that stands for it. */
const beginsWithSubject: ProseRule = {
  name: 'no sentence without a subject of its own',
  find: (text) =>
    /(?:^|[.:!?] )(?:(?:Of|What|Whatever|Who|Whoever|Whom|Those|As the|Where|Nobody|Somebody) [a-z]|The two are).{0,40}/.exec(
      text,
    )?.[0],
}

/** Texts of replies and pages are read alone, so that a pronoun at their beginning stands for nothing. */
const beginsWithoutPronoun: ProseRule = {
  name: 'begins with no pronoun',
  find: (text) => /^(?:It|Its|They|Their|Them) .{0,40}/.exec(text)?.[0],
}

const UNCOMMON_FORMS = [
  '(?:not|no) (?:\\w+ ){1,3}any more',
  '(?<!there )\\bis no (?!longer|such)[a-z]',
  'comes twice',
  'stands? (?:here|alone)',
  'will do\\b',
  'is wanted',
  'quarter of an hour',
  'known to the language',
  'leads? (?:nowhere|in a circle|back)',
  'no way leads',
  '\\bbegun\\b',
  'whatever holds',
  'must say (?:how|when)',
  ', please\\b',
  'on our side',
]
const UNCOMMON_FORM = new RegExp(UNCOMMON_FORMS.join('|'), 'i')

/** Negations and actions for which English has a common form. */
const usesCommonForms: ProseRule = {
  name: 'uses common forms of negation and time',
  find: (text) => UNCOMMON_FORM.exec(text)?.[0],
}

const OWN_RULES = [beginsWithSubject, usesCommonForms]
/** Messages have values in them, so that a rule of their form would bind the values. */
const MESSAGE_RULES = [hasNoIdiom, usesCommonWords, usesArticles, ...OWN_RULES]

test('texts: of the CLI, problems, diagnostics, settings, pages and mails: are read', () => {
  const found = { commands, options, hints, explanations, remedies, settings, pages, details, diagnostics }
  const counts = Object.entries(found).map(([name, texts]) => [name, texts.length >= 20])
  expect(counts).toEqual(Object.keys(found).map((name) => [name, true]))
})

test.each([
  beginsWithVerb([...IMPERATIVE_VERBS, ...COMMAND_VERBS]),
  endsWithPeriod,
  ...PROSE_RULES,
  ...OWN_RULES,
])('CLI: each command and group: $name', (rule) => {
  expect(violations(rule, commands.slice(1))).toEqual([])
})

test.each([...DESCRIPTION_RULES, ...PROSE_RULES, ...OWN_RULES])('CLI: each option: $name', (rule) => {
  expect(violations(rule, options)).toEqual([])
})

test.each([beginsUpright, hasNoPeriod, ...PROSE_RULES, ...OWN_RULES])('problem: title: $name', (rule) => {
  expect(violations(rule, titlesOf(PROBLEMS))).toEqual([])
})

test.each([beginsUpright, endsWithPeriod, hasSubject, ...PROSE_RULES, ...OWN_RULES])(
  'problem: help and hint for admins: $name',
  (rule) => {
    expect(violations(rule, hints)).toEqual([])
  },
)

test.each([beginsUpright, hasNoPeriod, ...PROSE_RULES, ...OWN_RULES])('diagnostic: title: $name', (rule) => {
  expect(violations(rule, titlesOf(DIAGNOSTICS))).toEqual([])
})

test.each([beginsUpright, endsWithPeriod, ...PROSE_RULES, ...OWN_RULES])(
  'diagnostic: explanation and remedy: $name',
  (rule) => {
    expect(violations(rule, [...explanations, ...remedies])).toEqual([])
  },
)

test.each([endsWithPeriod, ...MESSAGE_RULES])('setting: description: $name', (rule) => {
  expect(violations(rule, settings)).toEqual([])
})

test.each([beginsWithoutPronoun, ...MESSAGE_RULES])('page or mail: text in the source: $name', (rule) => {
  expect(violations(rule, pages)).toEqual([])
})

test.each([beginsWithoutPronoun, ...MESSAGE_RULES])('detail or hint: text in the source: $name', (rule) => {
  expect(violations(rule, details)).toEqual([])
})

test.each([beginsWithoutPronoun, ...MESSAGE_RULES])(
  'message of the compiler: text in the source: $name',
  (rule) => {
    expect(violations(rule, diagnostics)).toEqual([])
  },
)
