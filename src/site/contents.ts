/** The pages of the site by reader, in their order. A page of `docs` that stands nowhere here fails a test. */

export interface Group {
  readonly title: string
  /** The sentence below the title in `/llms.txt`. */
  readonly reader: string
  /** Files of the repository. Further pages of a folder are listed by its own page, such as the records by that of decisions. */
  readonly pages: readonly string[]
}

export const CONTENTS: readonly Group[] = [
  {
    title: 'Start',
    reader: 'The first hour, and where known things of other products are.',
    pages: [
      'docs/README.md',
      'docs/getting-started.md',
      'docs/tutorial.md',
      'docs/from-supabase.md',
      'docs/from-firebase.md',
      'docs/from-kestra.md',
      'docs/from-zigflow.md',
      'docs/glossary.md',
    ],
  },
  {
    title: 'App developers',
    reader: 'Data, files, events, functions and sign-in of an application.',
    pages: [
      'docs/for-app-developers.md',
      'docs/collections.md',
      'docs/queries.md',
      'docs/aggregates.md',
      'docs/search.md',
      'docs/schemas.md',
      'docs/batch.md',
      'docs/bulk-changes.md',
      'docs/import-export.md',
      'docs/access.md',
      'docs/users.md',
      'docs/privacy.md',
      'docs/objects.md',
      'docs/s3.md',
      'docs/events.md',
      'docs/functions.md',
      'docs/keys.md',
      'docs/client.md',
      'docs/openapi.md',
      'docs/command-line.md',
      'docs/project.md',
      'examples/todo-web/README.md',
      'examples/court-booking/README.md',
      'examples/support-desk/README.md',
      'examples/upload/README.md',
    ],
  },
  {
    title: 'Flow authors',
    reader: 'Durable work in YAML: the language, starts, approvals, errors.',
    pages: [
      'docs/for-flow-authors.md',
      'docs/flows.md',
      'flows-dsl/README.md',
      'docs/flows-running.md',
      'docs/executions.md',
      'docs/triggers.md',
      'docs/webhooks.md',
      'docs/approvals.md',
      'docs/secrets.md',
      'docs/reference/flow-diagnostics.md',
      'docs/reference/flow-conformance.md',
      'flows-dsl/jq/README.md',
    ],
  },
  {
    title: 'Agent builders',
    reader: 'Tools for agents: servers of a workspace, and the platform as tools.',
    pages: ['docs/for-agent-builders.md', 'docs/mcp.md', 'examples/gateway/README.md'],
  },
  {
    title: 'Operators',
    reader: 'Running an installation: tenants, servers, backups, incidents.',
    pages: [
      'docs/for-operators.md',
      'docs/tenants.md',
      'docs/identity.md',
      'docs/roles.md',
      'docs/host-names.md',
      'docs/limits.md',
      'docs/quotas.md',
      'docs/suspension.md',
      'docs/moving-workspaces.md',
      'docs/deploying.md',
      'docs/kubernetes.md',
      'docs/scaling.md',
      'docs/operating.md',
      'docs/runbooks/README.md',
      'docs/analytics.md',
      'docs/audit.md',
      'docs/retention.md',
      'docs/backup.md',
      'docs/keys-and-kms.md',
      'docs/security.md',
      'docs/performance.md',
    ],
  },
  {
    title: 'Reference',
    reader: 'Generated from the code.',
    pages: [
      'docs/reference/cli.md',
      'docs/reference/problems.md',
      'docs/reference/config.md',
      'docs/reference/limits.md',
      'docs/reference/metrics.md',
      'docs/reference/roles.md',
      'docs/reference/chart.md',
      'CHANGELOG.md',
    ],
  },
  {
    title: 'Contributors',
    reader: 'How it is built, and why.',
    pages: [
      'CONTRIBUTING.md',
      'docs/architecture.md',
      'docs/internals/README.md',
      'docs/decisions/README.md',
      'docs/contributing/reading.md',
      'docs/contributing/walks.md',
      'docs/contributing/models.md',
      'docs/contributing/dependencies.md',
      'docs/contributing/migrations.md',
      'docs/contributing/mutants.md',
      'docs/contributing/trackers.md',
      'docs/contributing/operating-faults.md',
      'test/README.md',
    ],
  },
]

/** Folders whose pages are listed by their own page. */
export const FOLDERS = ['docs/decisions', 'docs/internals', 'docs/runbooks'] as const
