"""The study: what all sites agree on before anything is learned. A TOML file, known by its digest.

| table               | says                                                                                        |
|---------------------|---------------------------------------------------------------------------------------------|
| `name`, `attempt`   | what the study is called, and how many times it has begun                                   |
| `follows`           | the digest of a study that this one goes on from, such as with next month's tables          |
| `[variables]`       | each variable's type, and where there are any: levels, which of them to merge, unit, label, |
|                     | values that stand for missing, `range` of what may occur, `transform` (log)                 |
| `[method]`          | how to learn: `name`, `regime`, `parameters`                                                |
| `[data]`            | `missing` (error, drop, impute) and `scale` (none, site, federated)                         |
| `[knowledge]`       | `required` and `forbidden` edges, `tiers`, `exogenous` variables                            |
| `[sites.NAME]`      | what its columns are called (`columns`), its public key (`identity`), what experiments set: |
|                     | variables in every row (`intervened`), or the column of each row's targets (`targets`),     |
|                     | or those whose mechanism it changed (`changed`)                                              |
| `[federation]`      | `quorum`: the sites that must answer; `timeout`: the seconds they have for it;              |
|                     | `minimum_sites`: the fewest that sums may tell of; `maximum_rows`: the most a site may have |
| `[privacy]`         | `secure_sum`; of each row, in `[privacy.rows]`: `epsilon`, `delta`, `rows_per_person`,      |
|                     | `expected_rows`; of sites, in `[privacy.differential]`: `epsilon`, `delta`, `clip`, `rounds` |
| `[trust]`           | what sites on a network do besides learning: `tables` (warn before the fit, by sums), and   |
|                     | with the learned graph `assess` (hold it against their rows),                               |
|                     | `bootstraps` and `leave_one_out` (stability), `mechanisms`, `effects` (pairs of variables), |
|                     | `grid` (parameters to compare)                                                              |

Variables and sites stand in the order of their names, whatever the file's, so that equal digests mean equal results.
"""

from feddag.study.study import Study, check_obedience, read_knowledge

__all__ = ["Study", "check_obedience", "read_knowledge"]
