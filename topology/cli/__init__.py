"""The command line: what all subcommands share, and those without a folder of their own.

    command_line         options, exit codes, finding a deployment, errors
    completion           names that the shell completes
    file_commands        validate, schema
    deployment_commands  plan, up, status
    down_command         down
    completeness_command completeness
    data_commands        gaps, sql, demo
    spark_options        --master, --conf
    show                 tables and progress on a terminal

`mirror`, `audit` and `rebalance` have their commands in `topology/mirror/`, `topology/audit/` and
`topology/rebalance/`.
"""
