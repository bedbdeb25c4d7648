"""streamtopo completion: shell scripts that complete commands, options, topics and groups."""

from __future__ import annotations

import click

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a completion script for SHELL.

    It completes commands, options, and the names of topics and groups.

    \b
    Examples:
      streamtopo completion bash > ~/.local/share/bash-completion/completions/streamtopo
      streamtopo completion zsh > ~/.zfunc/_streamtopo
      streamtopo completion fish > ~/.config/fish/completions/streamtopo.fish
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None
    root = context.find_root()
    click.echo(script(root.command, {}, "streamtopo", "_STREAMTOPO_COMPLETE").source())
