/** Knows events: how one is emitted, and which are waited for. */

import { variable } from './values.ts'
import { either, list, mapping, named, ref, type Schema, text, word } from './words.ts'

const TEXTS: Readonly<Record<string, string>> = {
  type: 'What kind of event it is.',
  source: 'Where it comes from; the flow where nothing is said.',
  subject: 'What it is about.',
  datacontenttype: 'The media type of the data.',
  dataschema: 'The URI of the schema of the data.',
  id: 'Its id, unique with the source; made of the run and the task where nothing is said.',
  time: 'When it happened; now where nothing is said.',
}

const attributes = (more: Schema): Record<string, Schema> =>
  Object.fromEntries(Object.entries(TEXTS).map(([key, description]) => [key, text(description, more)]))

const MODES: Readonly<Record<string, Schema>> = {
  one: ref('eventFilter', 'One event.'),
  any: list('Events of any of these; without any, every event.', ref('eventFilter')),
  all: list('One event of each of these.', ref('eventFilter'), { minItems: 1 }),
}

/** Exactly one of the three. */
const strategy = (description: string, more: Readonly<Record<string, Schema>> = {}): Schema => ({
  ...mapping(description, { ...MODES, ...more }),
  oneOf: Object.keys(MODES).map((key) => ({ required: [key] })),
})

export const EVENTS: Readonly<Record<string, Schema>> = {
  event: mapping(
    'An event (CloudEvents 1.0).',
    {
      with: mapping(
        'The attributes of the event; each may be an expression.',
        { ...attributes({ minLength: 1 }), data: ref('filter', 'What it carries.') },
        ['type'],
      ),
    },
    ['with'],
  ),
  eventFilter: mapping(
    'Which events are meant.',
    {
      with: {
        description:
          'Attributes and what they must be; an expression yields the value, or says whether it fits.',
        type: 'object',
        properties: { ...attributes({}), data: ref('filter', 'What the data must be.') },
        propertyNames: { pattern: '^[a-z0-9]{1,20}$' },
        minProperties: 1,
      },
      correlate: named(
        'Values that events that belong together share.',
        mapping(
          'One such value.',
          {
            from: ref('condition', 'Reads the value from the event.'),
            expect: ref('filter', 'What it must be; without it, what it was in the first event.'),
          },
          ['from'],
        ),
      ),
    },
    ['with'],
  ),
  events: strategy('One event, any of several, or one of each.'),
  listenTo: {
    ...strategy('One event, any of several, or one of each.', {
      until: either(
        'When `any` has enough: a condition, asked after each event, or events that end it.',
        ref('condition'),
        strategy('Events that end it; they are no part of the output.', { until: { const: false } }),
      ),
    }),
    dependentRequired: { until: ['any'] },
  },
  read: word('How events are read: their data, or with their attributes.', ['data', 'envelope', 'raw'], true),
  foreach: mapping('What is done with each event, one after the other.', {
    item: variable('The variable that has the event.', 'item'),
    at: variable('The variable that has its number, from 0.', 'index'),
    do: ref('tasks', 'Tasks that are run for each event.'),
    output: mapping('What is kept of it.', {
      as: ref('filter', 'Makes the output of what the tasks yielded.'),
    }),
    export: mapping('What is kept in `$context`.', { as: ref('filter', 'Replaces `$context`.') }),
  }),
}
